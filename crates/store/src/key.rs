//! Keys as bytes that sort as the keys do.
//!
//! No key's bytes are the beginning of another's, so keys can be put one behind the other: that is how tuples
//! are written, and how an index entry ends with the primary key.

/// Ends a string. It is smaller than every byte that may follow in a longer one, also than an escaped zero.
const END: [u8; 2] = [0, 1];
/// Stands for a zero in a string.
const ZERO: [u8; 2] = [0, 255];

/// What can be a key, or part of one. Bytes sort as values do, and none begin with another's.
pub trait Key {
    /// Adds the key's bytes.
    fn write(&self, out: &mut Vec<u8>);

    /// The type as a store remembers it. Types with different bytes have different shapes.
    fn shape() -> String;

    /// The key's bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

/// The first parts of a key: `(A,)` of `(A, B)`.
pub trait PrefixOf<K: Key>: Key {}

macro_rules! unsigned {
    ($($type:ident)*) => {$(
        impl Key for $type {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn shape() -> String {
                stringify!($type).to_owned()
            }
        }
    )*};
}
unsigned!(u8 u16 u32 u64 u128);

macro_rules! signed {
    ($($type:ident)*) => {$(
        impl Key for $type {
            // With its sign turned round, the smallest number is all zeros.
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&(self ^ $type::MIN).to_be_bytes());
            }
            fn shape() -> String {
                stringify!($type).to_owned()
            }
        }
    )*};
}
signed!(i8 i16 i32 i64 i128);

impl Key for bool {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn shape() -> String {
        "bool".to_owned()
    }
}

fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            0 => out.extend_from_slice(&ZERO),
            byte => out.push(byte),
        }
    }
    out.extend_from_slice(&END);
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self.as_bytes(), out);
    }

    fn shape() -> String {
        "string".to_owned()
    }
}

impl Key for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        write_string(self, out);
    }

    fn shape() -> String {
        "bytes".to_owned()
    }
}

impl<const N: usize> Key for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn shape() -> String {
        format!("[u8;{N}]")
    }
}

/// `None` comes first.
impl<K: Key> Key for Option<K> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.write(out);
        }
    }

    fn shape() -> String {
        format!("option<{}>", K::shape())
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Key),+> Key for ($($name,)+) {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$at.write(out);)+
            }
            fn shape() -> String {
                format!("({})", [$($name::shape()),+].join(","))
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

impl<A: Key, B: Key> PrefixOf<(A, B)> for (A,) {}
impl<A: Key, B: Key, C: Key> PrefixOf<(A, B, C)> for (A,) {}
impl<A: Key, B: Key, C: Key> PrefixOf<(A, B, C)> for (A, B) {}
impl<A: Key, B: Key, C: Key, D: Key> PrefixOf<(A, B, C, D)> for (A,) {}
impl<A: Key, B: Key, C: Key, D: Key> PrefixOf<(A, B, C, D)> for (A, B) {}
impl<A: Key, B: Key, C: Key, D: Key> PrefixOf<(A, B, C, D)> for (A, B, C) {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Strings in which zeros, ones and 255s meet.
    fn awkward() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            prop_oneof![Just(0), Just(1), Just(2), Just(254), Just(255), any::<u8>()],
            0..6,
        )
    }

    fn check<K: Key + Ord + std::fmt::Debug>(a: &K, b: &K) {
        let (left, right) = (a.bytes(), b.bytes());
        assert_eq!(left.cmp(&right), a.cmp(b), "{a:?} and {b:?}");
        assert!(a == b || !right.starts_with(&left), "{a:?} begins {b:?}");
    }

    proptest! {
        #[test]
        fn bytes_sort_as_keys_do_and_begin_no_other(
            a in (awkward(), any::<i64>(), proptest::option::of(awkward()), any::<u16>()),
            b in (awkward(), any::<i64>(), proptest::option::of(awkward()), any::<u16>()),
            s in ("[\\x00\\x01a-c]{0,4}", any::<[u8; 3]>()),
            t in ("[\\x00\\x01a-c]{0,4}", any::<[u8; 3]>()),
        ) {
            check(&a, &b);
            check(&s, &t);
            check(&a.0, &b.0);
            check(&a.1, &b.1);
            check(&a.2, &b.2);
            check(&(a.3, a.1), &(b.3, b.1));
            let same_start = (a.0.clone(), b.1, b.2.clone(), b.3);
            check(&a, &same_start);
        }
    }
}
