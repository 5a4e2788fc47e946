-- What is over of a job, newest first, and the oldest of all: what goes is found without a look at what stays.
create index job_run_over on job_run (job_id, number desc)
  where status in ('succeeded', 'failed', 'timed_out', 'canceled', 'skipped');
create index job_run_finished on job_run (finished_at)
  where status in ('succeeded', 'failed', 'timed_out', 'canceled', 'skipped');
