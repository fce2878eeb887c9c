//! Real messages, changed in a few places: what is near to right gets further than noise.

/// One of `messages`, chosen by the first byte, and changed as each four bytes after it say.
pub fn altered(messages: &[Vec<u8>], input: &[u8]) -> Vec<u8> {
    let Some((which, changes)) = input.split_first() else { return Vec::new() };
    let mut message = messages[usize::from(*which) % messages.len()].clone();
    for change in changes.chunks_exact(4) {
        let [how, high, low, value] = *change else { continue };
        let at = usize::from(u16::from_be_bytes([high, low])) % (message.len() + 1);
        match how % 4 {
            0 if at < message.len() => message[at] = value,
            1 => message.insert(at, value),
            2 if at < message.len() => drop(message.remove(at)),
            3 if value == 0 => message.truncate(at),
            // The same again: a count or a list that is longer.
            3 => message.extend_from_within(at..message.len().min(at + usize::from(value))),
            _ => {}
        }
    }
    message
}
