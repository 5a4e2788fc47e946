-- What a project runs is asked for with each list of projects: only its own tasks are looked at.
create index task_project on task (project_id) where reaped_at is null;
