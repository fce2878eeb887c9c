//! Connections that switch protocols: after a `101`, bytes go both ways untouched.

use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};

use crate::body::AnswerBody;
use crate::front::opaque;

/// A client that asked to switch.
pub(crate) struct Switch(OnUpgrade);

impl Switch {
    pub(crate) fn new(client: OnUpgrade) -> Switch {
        Switch(client)
    }
}

/// If the answer switches protocols, joins both sides once it was sent.
pub(crate) fn carry_out(mut response: Response<AnswerBody>, switch: Option<Switch>) -> Response<AnswerBody> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let Some(Switch(client)) = switch else { return response };
    let server = hyper::upgrade::on(&mut response);
    tokio::task::spawn_local(async move {
        let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
        let (mut client, sent) = opaque(client);
        let mut server = TokioIo::new(server);
        join(&mut *client, &mut server, &sent).await;
    });
    response
}

async fn join<C, S>(client: &mut C, server: &mut S, sent: &[u8])
where
    C: AsyncRead + AsyncWrite + Unpin + ?Sized,
    S: AsyncRead + AsyncWrite + Unpin,
{
    if server.write_all(sent).await.is_ok() {
        let _ = copy_bidirectional(client, server).await;
    }
}
