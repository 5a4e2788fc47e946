import type { Meter } from "@svc/telemetry";

const callSeconds = [0.002, 0.005, 0.02, 0.1, 0.5, 2, 10];
const roundSeconds = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

/**
 * Everything that control counts and measures. Labels are words of a fixed list or patterns of routes: never an id, an
 * address, or anything that a tenant wrote.
 */
export function createInstruments({ counter, gauge, histogram }: Pick<Meter, "counter" | "gauge" | "histogram">) {
  return {
    httpRequests: counter("http_requests_total", "Requests answered, by the pattern of their route", [
      "method",
      "route",
      "status",
    ]),
    httpSeconds: histogram("http_request_duration_seconds", "From a request's head to the end of its answer", {
      labelNames: ["method", "route"],
      buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 60],
    }),

    sessions: gauge("link_sessions", "Streams of daemons that this replica holds", ["role"]),
    sessionsOpened: counter("link_sessions_opened_total", "Streams whose daemon was let in", ["role"]),
    sessionsEnded: counter(
      "link_sessions_ended_total",
      "Streams that ended: superseded, fenced, go away, expired, refused, or ended by the daemon",
      ["role", "why"],
    ),
    renewals: counter("link_renewals_total", "Renewals of daemons' leases", ["role"]),
    assignmentSeconds: histogram("link_assignment_seconds", "From an assignment to the agent's answer", {
      buckets: callSeconds,
    }),
    statusTransactions: counter("link_status_transactions_total", "Transactions with observations that were stored"),
    statusOperations: counter("link_status_operations_total", "Observations that were stored"),
    statusConflicts: counter("link_status_conflicts_total", "Transactions with observations that met another writer"),

    etcdSeconds: histogram("etcd_request_seconds", "One attempt of a call to etcd", {
      labelNames: ["call"],
      buckets: callSeconds,
    }),
    etcdErrors: counter("etcd_request_errors_total", "Attempts that failed, by what the caller was told", [
      "call",
      "code",
    ]),
    etcdWatchRestarts: counter("etcd_watch_restarts_total", "Watches that had to be opened again"),
    etcdWatchSilence: gauge(
      "etcd_watch_silence_seconds",
      "How long ago the watch that was heard least lately was heard; some 5 on a quiet day",
    ),

    postgresConnections: gauge("postgres_connections", "Connections of the pool: in_use or idle", ["state"]),
    postgresWaiting: gauge("postgres_waiting", "Callers that wait for a connection"),

    workItems: gauge("work_items", "Work items that are not done: queued, running or failed", ["kind", "state"]),
    workOldest: gauge("work_oldest_seconds", "For how long the oldest due item of a kind waits", ["kind"]),
    certificatesLate: gauge(
      "site_certificates_late",
      "Names with less than a quarter of their certificate's life left: renewals begin with a third, so somebody has to look",
    ),
    workFinished: counter(
      "work_finished_total",
      "Attempts at work of this replica: done, failed, again (it failed), waits (as planned) or lost",
      ["kind", "outcome"],
    ),

    leader: gauge("leader", "1 on the replica that leads, else 0"),
    leaderships: counter("leaderships_total", "How often this replica became the leader"),
    loopRounds: counter("loop_rounds_total", "Rounds of the leader's loops: ok or failed", ["loop", "outcome"]),
    loopSeconds: histogram("loop_round_seconds", "One round of a loop of the leader", {
      labelNames: ["loop"],
      buckets: roundSeconds,
    }),
    schedulerDecisions: counter("scheduler_decisions_total", "Steps that the scheduler decided on", ["decision"]),
    replicasReplaced: counter("replicas_replaced_total", "Containers made in place of others, by cause", ["cause"]),
    storm: gauge("storm", "1 while the leader moves nothing because too much is lost or it is new; else 0"),

    tasksWaiting: gauge("tasks_waiting", "Tasks without a node"),
    tasksRefused: gauge("tasks_refused", "Tasks without a node, by each reason that kept a node from them", ["reason"]),
    nodes: gauge("nodes", "Machines of the fleet by the word for how they are", ["role", "status"]),
    nodesDiskFull: gauge("nodes_disk_full", "Nodes with too little free disk space for new work"),
    nodesMemoryShort: gauge("nodes_memory_short", "Nodes with too little memory really left for new work"),
    placements: gauge("placements", "Placements by what their node last said of them", ["state"]),
    routesGeneration: gauge("routes_generation", "Generation of the published route table"),
    routesHosts: gauge("routes_hosts", "Hosts in the published route table"),
    edgesBehind: gauge("edges_behind", "Edges in rotation that do not serve the published table as a whole"),
    certificateDays: gauge("certificate_days_left", "Until the first certificate of a daemon in the fleet ends", [
      "role",
    ]),
    databaseCopies: gauge("database_copies", "Copies of databases that have not ended", ["state", "place"]),
    databaseCopyLag: gauge(
      "database_copy_lag_seconds",
      "For how long changes may be missing in the copy of which that is longest, of databases that are ready",
    ),
    databasesUncopied: gauge("databases_without_copy", "Databases that are ready and have no copy that follows"),
    databaseProofs: gauge("database_proofs", "Databases by what came of the last restore of their copy", ["verdict"]),
    databaseProofAge: gauge(
      "database_proof_age_seconds",
      "Since the last proven restore of the database of which that is longest ago",
    ),
    backupsWaiting: gauge(
      "backups_not_offsite",
      "Complete backups that are not in the bucket outside of this site yet",
    ),
    backupsWaitingAge: gauge("backups_not_offsite_seconds", "For how long the oldest of these has been complete"),
    copiesOffsiteLag: gauge(
      "database_copies_offsite_lag_seconds",
      "For how long changes may be missing off-site of the copy of which that is longest, of databases that are ready",
    ),
    jobsClockLag: gauge(
      "jobs_clock_lag_seconds",
      "For how long the scheduled job that is due longest has been so; the leader looks every second",
    ),
    factsFailed: counter("facts_failed_total", "Times that Postgres did not tell what the gauges of the fleet show"),
  };
}

export type Instruments = ReturnType<typeof createInstruments>;
