//! Connections without a request, and futures that are seldom ready: neither may cost anything per request.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long a client's connection has had no request.
pub(crate) struct Idle {
    requests: Cell<usize>,
    since: Cell<Instant>,
}

impl Idle {
    pub(crate) fn new() -> Rc<Idle> {
        Rc::new(Idle { requests: Cell::new(0), since: Cell::new(Instant::now()) })
    }

    /// A request has come. It is over when what this returns is dropped.
    pub(crate) fn interrupt(self: &Rc<Idle>) -> Busy {
        self.requests.set(self.requests.get() + 1);
        Busy(Rc::clone(self))
    }

    /// Returns once there was no request for so long. The timer is set when it fires, not for each request.
    pub(crate) async fn longer_than(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let is_busy = self.requests.get() > 0;
            let deadline = if is_busy { now } else { self.since.get() } + limit;
            if !is_busy && deadline <= now {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// A connection that has a request.
pub(crate) struct Busy(Rc<Idle>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get() - 1);
        self.0.since.set(Instant::now());
    }
}

/// A future that is polled only when it was woken itself, not whenever its task is.
pub(crate) struct Seldom<F> {
    future: Pin<Box<F>>,
    alarm: Option<Arc<Alarm>>,
}

struct Alarm {
    rang: AtomicBool,
    task: Waker,
}

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.rang.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F: Future> Seldom<F> {
    pub(crate) fn new(future: F) -> Seldom<F> {
        Seldom { future: Box::pin(future), alarm: None }
    }
}

impl<F: Future> Future for Seldom<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let alarm = match &this.alarm {
            Some(alarm) if alarm.task.will_wake(context.waker()) => {
                if !alarm.rang.load(Ordering::Acquire) {
                    return Poll::Pending;
                }
                alarm.rang.store(false, Ordering::Relaxed);
                alarm
            }
            _ => this
                .alarm
                .insert(Arc::new(Alarm { rang: AtomicBool::new(false), task: context.waker().clone() })),
        };
        let waker = Waker::from(Arc::clone(alarm));
        this.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    const LIMIT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_connection_with_a_request_is_not_idle_and_one_without_is_some_time() {
        let idle = Idle::new();
        let mut watch = Seldom::new(idle.longer_than(LIMIT));
        let request = idle.interrupt();
        assert!(timeout(LIMIT * 4, &mut watch).await.is_err());
        drop(request);
        watch.await;
    }

    #[tokio::test]
    async fn a_seldom_future_is_polled_for_its_own_wakes_only() {
        let (polls, done) = (Cell::new(0), Cell::new(false));
        let tell: Cell<Option<Waker>> = Cell::default();
        let mut seldom = Seldom::new(std::future::poll_fn(|context| {
            polls.set(polls.get() + 1);
            tell.set(Some(context.waker().clone()));
            if done.get() { Poll::Ready(()) } else { Poll::Pending }
        }));
        for _ in 0..5 {
            tokio::select! { biased; () = &mut seldom => {}, () = yield_now() => {} }
        }
        assert_eq!(polls.get(), 1);
        done.set(true);
        tell.take().unwrap().wake();
        seldom.await;
        assert_eq!(polls.get(), 2);
    }
}
