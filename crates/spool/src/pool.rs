//! The threads that wait for the disk, so that no caller's loop does.

use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::error::Error;

/// One may wait for an fsync while others read.
const THREADS: usize = 4;
/// Segments on their way to or from the disk at once, at most: 2 MiB. More wait outside.
const PLACES: usize = 32;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Pool {
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    places: Arc<Semaphore>,
    /// Ends when the last thread does.
    ended: tokio::sync::Mutex<tokio::sync::mpsc::Receiver<Infallible>>,
}

/// Leave to have one job done.
pub(crate) type Place = OwnedSemaphorePermit;

impl Pool {
    pub(crate) fn start() -> Result<Pool, Error> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        let (running, ended) = tokio::sync::mpsc::channel(1);
        for number in 0..THREADS {
            let (queue, running) = (Arc::clone(&queue), running.clone());
            std::thread::Builder::new().name(format!("spool-{number}")).spawn(move || {
                while let Some(job) = next(&queue) {
                    // What a job held is dropped, so that whoever waits for it is told.
                    drop(catch_unwind(AssertUnwindSafe(job)));
                }
                drop(running);
            })?;
        }
        Ok(Pool {
            jobs: Mutex::new(Some(jobs)),
            places: Arc::new(Semaphore::new(PLACES)),
            ended: tokio::sync::Mutex::new(ended),
        })
    }

    /// No threads: jobs are done where they are given.
    pub(crate) fn here() -> Pool {
        let (_, ended) = tokio::sync::mpsc::channel(1);
        Pool {
            jobs: Mutex::new(None),
            places: Arc::new(Semaphore::new(PLACES)),
            ended: tokio::sync::Mutex::new(ended),
        }
    }

    /// Waits until there is a place among the jobs.
    pub(crate) async fn place(&self) -> Result<Place, Error> {
        Arc::clone(&self.places).acquire_owned().await.map_err(|_| Error::Closed)
    }

    /// Begins a job. The answer may be waited for, or not.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        place: Place,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> oneshot::Receiver<Result<T, Error>> {
        let (answer, answered) = oneshot::channel();
        self.later(move || {
            let result = work();
            drop(place);
            drop(answer.send(result));
        });
        answered
    }

    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let place = self.place().await?;
        self.begin(place, work).await.unwrap_or(Err(Error::Closed))
    }

    /// Has something done that nobody waits for, nor can: it takes no place. After the end, it is done here and now.
    pub(crate) fn later(&self, job: impl FnOnce() + Send + 'static) {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match jobs {
            Some(jobs) => drop(jobs.send(Box::new(job))),
            None => job(),
        }
    }

    /// Does what was begun, and nothing more.
    pub(crate) async fn close(&self) {
        self.places.close();
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.ended.lock().await.recv().await;
    }
}

/// Whoever waits for a job holds the queue; the others wait for the queue.
fn next(queue: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
