//! One request of the thin path and its answer.

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::HeaderMap;
use http1guard::{Body, Head, MOST_PER_TURN};
use plan::Sent;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::answer::{Answer, Read, read};
use super::body::{Download, Flow, Sending, Upload};
use super::buffers::Buffer;
use super::decide::{Decision, Going, decide};
use super::wire::{CLOSE, fill, first, put_fields, put_length, put_status, write, write_both};
use super::{Client, Seat, guard_limits, several};
use crate::alarm::Alarm;
use crate::body::LegBody;
use crate::core::Core;
use crate::headers::{self, HEADERS_ON_STACK};
use crate::inflow::Fault;
use crate::interim;
use crate::leg::{self, LegFailure};
use crate::problem::{self, Problem};
use crate::settings::Settings;
use crate::upgrade;
use crate::upstream::{Kind, Leased, Tries, Upstreams};

/// What comes after a request.
pub(super) enum Then {
    /// The next one. The answer ended then.
    Next(Instant),
    /// The end of the connection.
    Close,
    /// The same, but the client may still be sending.
    Linger,
    /// The other path: nothing of this request was sent, and its bytes are all there.
    HandOver,
}

/// Serves the request whose head is at the start of the client's buffer.
pub(super) async fn exchange(seat: &Seat, client: &mut Client, head: Head) -> Then {
    let Some(mut buffer) = client.buffer.take() else { return Then::Close };
    let mut out = seat.core.buffers.text();
    let mut teller = Teller { seat, alarm: &client.alarm, is_head: false, close: client.reading.close };
    match decide(seat, buffer.unread(), &head, &client.reading, &mut out) {
        Decision::HandOver => {
            client.buffer = Some(buffer);
            Then::HandOver
        }
        Decision::Refuse(problem, scoped) => {
            teller.is_head = buffer.unread().get(head.method.clone()) == Some(b"HEAD");
            buffer.take(head.len);
            client.buffer = Some(buffer).filter(|buffer| !buffer.is_empty());
            if let Some(scoped) = scoped {
                scoped.answered(&seat.core, problem.status(), None);
            }
            let whole = matches!(head.body, Body::None | Body::Length(0));
            // Boxed: it is seldom needed, and each request would keep room for it.
            Box::pin(teller.tell(&mut client.stream.split().1, problem, whole)).await
        }
        Decision::Several(request) => {
            buffer.take(head.len);
            client.buffer = Some(buffer).filter(|buffer| !buffer.is_empty());
            drop(out);
            // Boxed: other requests keep no room for it.
            Box::pin(several::carry_out(&teller, &mut client.stream.split().1, request)).await
        }
        Decision::Go(mut going) => {
            buffer.take(head.len);
            teller.is_head = going.is_head;
            let mut buffer = Some(buffer);
            let then = carry_out(&teller, &mut client.stream, &mut going, &mut buffer, &mut out).await;
            client.buffer = buffer.filter(|buffer| !buffer.is_empty());
            then
        }
    }
}

/// Sends a request to the service, and its answer to the client.
async fn carry_out(
    teller: &Teller<'_>,
    client: &mut TcpStream,
    going: &mut Going<'_>,
    buffer: &mut Option<Buffer>,
    out: &mut Vec<u8>,
) -> Then {
    let seat = teller.seat;
    let times = Times::of(going.state.settings());
    let (from_client, mut to_client) = client.split();
    let rest = with_start_of_body(going.body, buffer, out);
    let (mut plain, lease, written, now) =
        match reach(&going.service.upstreams, out, teller.alarm, times.response).await {
            Ok((leased, written, now)) => (leased.plain, leased.lease, written, now),
            Err(failure) => {
                let problem = going.failed(&seat.core, *failure);
                return Box::pin(teller.tell(&mut to_client, problem, rest == Body::None)).await;
            }
        };
    let (mut from_service, mut to_service) = plain.split();
    let flow = Flow { moved: Cell::new(now), answered: Cell::new(false) };
    let unsent = out.get(written..).unwrap_or_default();
    let is_sent = write_both(&mut to_service, unsent, b"", teller.alarm, times.response).await.is_ok();
    // While the service is at work, nothing is held that is empty.
    *buffer = buffer.take().filter(|buffer| !buffer.is_empty() || rest != Body::None);
    let mut sending = match (rest, buffer) {
        _ if !is_sent => Sending::broken(),
        (Body::None, _) | (_, None) => Sending::nothing(),
        (body, Some(buffer)) => {
            let (from, to, flow, pause) = (from_client, to_service, &flow, times.body_idle);
            let (limits, alarm) = (guard_limits(going.state.settings()), seat.core.alarms.alarm());
            let upload = Upload { from, to, buffer, body, limits, pause, alarm, flow };
            Sending::new(upload.run(&seat.core.buffers))
        }
    };
    let (from, to) = (&mut from_service, &mut to_client);
    let most_headers = going.state.settings().limits.headers;
    let hearing = Hearing { teller, from, to, flow: &flow, times, most_headers };
    // Pinned here: a future that is handed on is copied.
    let heard = sending.alongside(pin!(hearing.answer(out))).await;
    let (answer, buffer) = match going.heard(&seat.core, heard) {
        Ok(heard) => heard,
        Err(problem) => return Box::pin(teller.tell(&mut to_client, problem, sending.whole)).await,
    };
    going.service.upstreams.answered(&lease);
    flow.answered.set(true);
    let last = teller.ends(out);
    let (from, to, alarm) = (&mut from_service, &mut to_client, teller.alarm);
    let most_trailers = most_headers.max(HEADERS_ON_STACK);
    let streams = (&seat.core.shared.streams, going.state.settings().limits.streams);
    let download =
        Download { from, to, buffer, pause: times.body_idle, most_trailers, alarm, streams, open: None };
    let Ok(Ok(clean)) = sending.alongside(pin!(download.run(out, answer.framing))).await else {
        return Then::Close;
    };
    if answer.keep && !sending.whole {
        // A service that says more, or closes, takes nothing any more.
        let mut after = seat.core.buffers.small();
        alarm.set_at(None);
        sending.end_unless(fill(&mut from_service, &mut after, alarm)).await;
    }
    let (whole, ended) = (sending.whole, Instant::now());
    drop(sending);
    if whole && clean && answer.keep {
        lease.give_back(plain, ended.into());
    }
    match whole {
        true if last => Then::Close,
        true => Then::Next(ended),
        false => Then::Linger,
    }
}

/// An answer's head, and what came of its body; or why there is none.
type Heard = Result<(Answer, Buffer), Box<LegFailure>>;

impl Going<'_> {
    /// What was heard of the service, if the client did not fail first: the answer, or what the client is told.
    fn heard(&mut self, core: &Core, heard: Result<Heard, Fault>) -> Result<(Answer, Buffer), Problem> {
        match heard {
            Ok(Ok((answer, buffer))) => self.answered(core, answer).map(|answer| (answer, buffer)),
            Ok(Err(failure)) => Err(self.failed(core, *failure)),
            Err(fault) => Err(self.failed(core, LegFailure::of_client(fault))),
        }
    }

    /// There is no answer: what the client is told.
    fn failed(&mut self, core: &Core, failure: LegFailure) -> Problem {
        leg::settle(self.handed_on.take(), Err(&failure));
        self.problem(core, failure.into_problem(&self.service.name))
    }

    /// There is one. It must not switch protocols: who asks for that is not on this path.
    fn answered(&mut self, core: &Core, answer: Answer) -> Result<Answer, Problem> {
        leg::settle(self.handed_on.take(), Ok(answer.status));
        if answer.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.problem(core, upgrade::unasked()));
        }
        if let Some(scoped) = self.scoped.take() {
            scoped.answered(core, answer.status, answer.sites.as_ref());
        }
        Ok(answer)
    }

    fn problem(&mut self, core: &Core, problem: Problem) -> Problem {
        if let Some(scoped) = self.scoped.take() {
            scoped.answered(core, problem.status(), None);
        }
        problem
    }
}

/// The start of a body goes with the head, if it is there. What follows is returned.
fn with_start_of_body(body: Body, buffer: &mut Option<Buffer>, out: &mut Vec<u8>) -> Body {
    match (body, buffer) {
        (Body::Length(length), Some(buffer)) => {
            let here = buffer.unread().len().min(usize::try_from(length).unwrap_or(usize::MAX));
            out.extend_from_slice(buffer.unread().get(..here).unwrap_or_default());
            buffer.take(here);
            if length == here as u64 { Body::None } else { Body::Length(length - here as u64) }
        }
        (body, _) => body,
    }
}

/// Connects, and writes at least one byte. Until then the request may go to another target; after, never.
async fn reach(
    upstreams: &Upstreams<LegBody>,
    head: &[u8],
    alarm: &Alarm,
    limit: Duration,
) -> Result<(Leased<LegBody>, usize, Instant), Box<LegFailure>> {
    let mut tries = Tries::default();
    loop {
        let leased = upstreams.lease(&mut tries).await;
        let (mut leased, now) = leased.map_err(|(kind, _)| Box::new(LegFailure::of(Sent::No, kind)))?;
        alarm.set_at(now.checked_add(limit));
        let error = match write(&mut leased.plain.split().1, head, alarm).await {
            Ok(written @ 1..) => return Ok((leased, written, now)),
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(Box::new(leg::late(limit))),
            Err(error) => error,
        };
        upstreams.took_nothing(&leased.lease, &mut tries, error);
    }
}

/// How long a request may take.
#[derive(Clone, Copy)]
struct Times {
    response: Duration,
    body_idle: Duration,
}

impl Times {
    fn of(settings: &Settings) -> Times {
        let times = &settings.timeouts;
        Times { response: times.response, body_idle: times.body_idle }
    }
}

/// Waits for the answer to a request.
struct Hearing<'h, 'a> {
    teller: &'h Teller<'h>,
    from: &'h mut ReadHalf<'a>,
    to: &'h mut WriteHalf<'a>,
    flow: &'h Flow,
    times: Times,
    most_headers: usize,
}

impl Hearing<'_, '_> {
    /// The head of the answer, written to `out` as the client gets it, and what came of the body.
    async fn answer(mut self, out: &mut Vec<u8>) -> Heard {
        let not_http = || Box::new(LegFailure::of(Sent::Maybe, Kind::Protocol));
        let mut buffer = self.first().await?;
        // How many may still be told: none after one that is not plain, as on the other path.
        let mut interims = MOST_PER_TURN;
        loop {
            if !buffer.is_empty() {
                match read(buffer.unread(), self.teller.is_head, self.most_headers, out) {
                    Read::Final(answer) => {
                        buffer.take(answer.len);
                        return Ok((answer, buffer));
                    }
                    Read::Interim(len, said) => {
                        buffer.take(len);
                        match said.filter(|_| len <= interim::MOST_BYTES) {
                            // Nobody on this path waits for the word.
                            Some((StatusCode::CONTINUE, _)) => {}
                            Some((status, fields)) if interims > 0 => {
                                interims -= 1;
                                // Boxed, as all here that few requests need: each keeps room for the rest.
                                Box::pin(self.say(status, &fields)).await;
                            }
                            _ => interims = 0,
                        }
                        continue;
                    }
                    Read::Bad => return Err(not_http()),
                    Read::More if !buffer.is_full() => {}
                    Read::More if buffer.is_large() => return Err(not_http()),
                    Read::More => buffer.grow(u64::MAX, true),
                }
            }
            Box::pin(self.more(&mut buffer)).await?;
        }
    }

    /// A buffer is taken when there is something for it.
    async fn first(&mut self) -> Result<Buffer, Box<LegFailure>> {
        let mut asked = false;
        loop {
            self.teller.alarm.set_at(self.flow.moved.get().checked_add(self.times.response));
            match first(self.from, &self.teller.seat.core.buffers, &mut asked, self.teller.alarm).await {
                Ok((buffer, 1..)) => return Ok(buffer),
                Ok((_, 0)) => return Err(Box::new(LegFailure::of(Sent::Maybe, Kind::Reset))),
                Err(error) => self.is_late(&error)?,
            }
        }
    }

    async fn more(&mut self, buffer: &mut Buffer) -> Result<(), Box<LegFailure>> {
        loop {
            self.teller.alarm.set_at(self.flow.moved.get().checked_add(self.times.response));
            match fill(self.from, buffer, self.teller.alarm).await {
                Ok(1..) => return Ok(()),
                Ok(0) => return Err(Box::new(LegFailure::of(Sent::Maybe, Kind::Reset))),
                Err(error) => self.is_late(&error)?,
            }
        }
    }

    fn is_late(&self, error: &io::Error) -> Result<(), Box<LegFailure>> {
        if error.kind() != io::ErrorKind::TimedOut {
            return Err(Box::new(LegFailure::of(Sent::Maybe, Kind::Reset)));
        }
        // From when the request last moved: a long upload is not a slow answer.
        if self.flow.moved.get().elapsed() >= self.times.response {
            return Err(Box::new(leg::late(self.times.response)));
        }
        Ok(())
    }

    /// Tells the client of an interim answer. One that has gone is found when it gets the final one.
    async fn say(&mut self, status: StatusCode, fields: &HeaderMap) {
        let head = interim::head(status, fields);
        let _ = write_both(self.to, &head, b"", self.teller.alarm, self.times.body_idle).await;
    }
}

/// Says to a client what the mesh has to say itself.
pub(super) struct Teller<'t> {
    pub(super) seat: &'t Seat,
    pub(super) alarm: &'t Alarm,
    is_head: bool,
    close: bool,
}

impl Teller<'_> {
    async fn tell(&self, to: &mut WriteHalf<'_>, problem: Problem, whole: bool) -> Then {
        let (status, mut fields, mut document) = problem.into_document();
        headers::drop_peers_only(&mut fields);
        if let Some(member) = &self.seat.core.state().settings().profile.problems.within {
            document = problem::within(&mut fields, document, member);
        }
        let mut out = self.seat.core.buffers.text();
        put_status(&mut out, status, None);
        put_fields(&mut out, &fields);
        put_length(&mut out, document.len() as u64);
        let last = if whole {
            self.ends(&mut out)
        } else {
            out.extend_from_slice(CLOSE);
            out.extend_from_slice(b"\r\n");
            true
        };
        let body: &[u8] = if self.is_head { b"" } else { &document };
        let pause = self.seat.core.state().settings().timeouts.body_idle;
        match write_both(to, &out, body, self.alarm, pause).await {
            Err(_) => Then::Close,
            Ok(()) if !whole => Then::Linger,
            Ok(()) if last => Then::Close,
            Ok(()) => Then::Next(Instant::now()),
        }
    }

    /// Ends a head. Whether it is the last on its connection.
    pub(super) fn ends(&self, head: &mut Vec<u8>) -> bool {
        let last = self.close || self.seat.draining.has_started();
        if last {
            head.extend_from_slice(CLOSE);
        }
        head.extend_from_slice(b"\r\n");
        last
    }
}
