/* Topics of Postgres notifications: they only speed things up, every loop also looks by itself. */

/** Announced when a node's row was fenced or removed, so that its stream ends at once, and when an edge's row changes at all. */
export const nodeTopic = "svc_node";

/** Topic on which changes of what hosts serve are announced to the leader: with the id of the project, or "" for any. */
export const routeTopic = "svc_routes";

/** Topic on which changes of `task` rows are announced to the leader. */
export const taskTopic = "svc_tasks";

/** Topic on which the leader's clock is told that some scheduled job is to fire at another time. */
export const jobTopic = "svc_jobs";

/** Topic on which the end of projects is announced to whoever holds agents' streams. */
export const goneTopic = "svc_projects_gone";

/** Topic on which replicas ask one another which of them etcd answers: `who` or `here`, and the id of who says it. */
export const replicaTopic = "svc_replicas";

/** Topic on which runs of jobs that began, or are to end, are announced to the leader. */
export const jobRunTopic = "svc_job_runs";
