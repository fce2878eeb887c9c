//! Limits on waits, without a timer for each: a core looks at all of them now and then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How often a core looks: a wait may take so much longer than its limit.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All alarms of a core.
#[derive(Default)]
pub(crate) struct Alarms {
    all: RefCell<Vec<Rc<Alarm>>>,
    some: Notify,
}

impl Alarms {
    /// One more, for as long as who asked keeps it.
    pub(crate) fn alarm(&self) -> Rc<Alarm> {
        let alarm = Rc::new(Alarm { due: Cell::new(None), rang: Cell::new(false), task: RefCell::default() });
        self.all.borrow_mut().push(Rc::clone(&alarm));
        self.some.notify_one();
        alarm
    }

    /// Rings those that are due, for ever.
    pub(crate) async fn ring(&self) {
        loop {
            while self.all.borrow().is_empty() {
                self.some.notified().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Instant::now();
            let due = |alarm: &Rc<Alarm>| alarm.due.get().is_some_and(|due| due <= now);
            let mut all = self.all.borrow_mut();
            // Nobody else has it any more: its connection has ended.
            all.retain(|alarm| Rc::strong_count(alarm) > 1);
            all.iter().filter(|alarm| due(alarm)).for_each(|alarm| alarm.ring());
        }
    }
}

/// Rings once after each time that it was set, unless it is set anew before.
pub(crate) struct Alarm {
    due: Cell<Option<Instant>>,
    rang: Cell<bool>,
    task: RefCell<Option<Waker>>,
}

impl Alarm {
    /// Rings after so long, from now on; which is returned.
    pub(crate) fn set(&self, limit: Duration) -> Instant {
        let now = Instant::now();
        self.set_at(now.checked_add(limit));
        now
    }

    /// Rings then; never, if there is no such time.
    pub(crate) fn set_at(&self, due: Option<Instant>) {
        self.due.set(due);
        self.rang.set(false);
    }

    /// Ready once it rang.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.rang.get() {
            return Poll::Ready(());
        }
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|task| task.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn ring(&self) {
        self.due.set(None);
        self.rang.set(true);
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn an_alarm_rings_when_it_is_due_and_not_when_it_was_set_anew() {
        let alarms = Alarms::default();
        let (first, second) = (alarms.alarm(), alarms.alarm());
        first.set(Duration::from_millis(1));
        second.set(Duration::from_millis(1));
        second.set(Duration::from_hours(1));
        tokio::select! {
            () = alarms.ring() => {}
            () = poll_fn(|context| first.poll(context)) => {}
        }
        assert!(first.rang.get() && !second.rang.get());
        first.set(Duration::from_hours(1));
        assert!(!first.rang.get(), "it was set anew");
    }

    #[tokio::test]
    async fn an_alarm_that_nobody_keeps_is_forgotten() {
        let alarms = Alarms::default();
        let kept = alarms.alarm();
        kept.set(Duration::ZERO);
        drop(alarms.alarm());
        tokio::select! {
            () = alarms.ring() => {}
            () = poll_fn(|context| kept.poll(context)) => {}
        }
        assert_eq!(alarms.all.borrow().len(), 1);
    }
}
