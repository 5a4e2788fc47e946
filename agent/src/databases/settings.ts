// @pure
import type { DatabaseEngine } from "@svc/proto";

/** What control says of a database's server. */
export interface DatabaseSizes {
  /** What its container may take. */
  memoryMb: number;
  /** What its owner may store. */
  sizeMb: number;
  /** Sessions at once, those of the platform included: changing it takes a restart. */
  connections: number;
  /** Nothing durable is to be written. */
  readOnly: boolean;
}

/** Settings of the server, as arguments of its image's entry point. The image adds where its files are. */
export function serverSettings(engine: DatabaseEngine, sizes: DatabaseSizes): string[] {
  const settings = engine === "postgres" ? postgresSettings(sizes) : mariadbSettings(sizes);
  return Object.entries(settings).flatMap(([name, value]) =>
    engine === "postgres" ? ["-c", `${name}=${value}`] : [`--${name.replaceAll("_", "-")}=${value}`],
  );
}

const between = (least: number, value: number, most: number): number =>
  Math.min(Math.max(least, Math.floor(value)), most);

/** Memory for pages of tables: by how much there may be of them, and never so much that sessions find none. */
const cacheMb = ({ memoryMb, sizeMb }: DatabaseSizes): number =>
  Math.min(between(16, sizeMb / 16, 512), between(16, memoryMb / 4, 512));

/** What the log of changes may keep on the volume for whoever copies it and is away. */
const keptLogMb = ({ sizeMb }: DatabaseSizes): number => Math.max(256, Math.floor(sizeMb / 4));

function postgresSettings(sizes: DatabaseSizes): Record<string, string> {
  return {
    max_connections: `${sizes.connections}`,
    shared_buffers: `${cacheMb(sizes)}MB`,
    effective_cache_size: `${between(16, sizes.memoryMb / 2, 16_384)}MB`,
    maintenance_work_mem: `${between(16, sizes.memoryMb / 16, 256)}MB`,
    // A database of this size gains nothing by workers, and each of them takes a process.
    max_parallel_workers: "0",
    max_parallel_workers_per_gather: "0",
    max_logical_replication_workers: "0",
    max_worker_processes: "2",
    autovacuum_max_workers: "2",
    jit: "off",
    huge_pages: "off",
    // What a copy and its successors need, and what a copy that is away may cost: its own continuity, never the disk.
    wal_level: "replica",
    max_wal_senders: "4",
    max_replication_slots: "4",
    max_slot_wal_keep_size: `${keptLogMb(sizes)}MB`,
    wal_keep_size: "0",
    max_wal_size: `${between(64, sizes.sizeMb / 16, 256)}MB`,
    // The server does not start with less than two segments, of 1 MB here, or with more than the line above.
    min_wal_size: "32MB",
    temp_file_limit: `${sizes.sizeMb}MB`,
    max_prepared_transactions: "0",
    // A restore drops and makes every table in one transaction, and holds a lock of each, of its indexes and of what belongs to it.
    max_locks_per_transaction: "1024",
    // What keeps sessions from undoing it is that the image's entry point starts a standby, unless that would lose something.
    default_transaction_read_only: sizes.readOnly ? "on" : "off",
    idle_in_transaction_session_timeout: "10min",
    password_encryption: "scram-sha-256",
    // What its owner may say is decided by the platform, not by a file that a superuser's session wrote.
    allow_alter_system: "off",
    // One call for the file system instead of one for each of many thousand files, after every kill.
    recovery_init_sync_method: "syncfs",
    // Statements carry what is the tenant's: none is in the log, failed ones included.
    log_statement: "none",
    log_min_error_statement: "panic",
    log_min_duration_statement: "-1",
    log_parameter_max_length: "0",
    log_parameter_max_length_on_error: "0",
    log_checkpoints: "off",
    log_connections: "off",
    log_disconnections: "off",
    log_timezone: "UTC",
    timezone: "UTC",
  };
}

function mariadbSettings(sizes: DatabaseSizes): Record<string, string> {
  return {
    max_connections: `${sizes.connections}`,
    read_only: sizes.readOnly ? "ON" : "OFF",
    innodb_buffer_pool_size: `${cacheMb(sizes)}M`,
    innodb_log_file_size: `${between(8, sizes.sizeMb / 16, 96)}M`,
    // A row of a dump is one statement, twice as long as what an app wrote. Memory is taken as a statement needs it.
    max_allowed_packet: "1G",
    innodb_read_io_threads: "1",
    innodb_write_io_threads: "1",
    innodb_purge_threads: "1",
    performance_schema: "OFF",
    aria_pagecache_buffer_size: "8M",
    key_buffer_size: "1M",
    query_cache_type: "OFF",
    query_cache_size: "0",
    table_open_cache: "400",
    table_definition_cache: "400",
    // A transaction that was acknowledged is on disk, in the tables and in the log of changes.
    innodb_flush_log_at_trx_commit: "1",
    sync_binlog: "1",
    log_bin: "binlog",
    binlog_format: "ROW",
    // Owners have triggers and functions of their own. By default only an administrator may where there is a log of changes, since a
    // statement may come to something else when it is carried out again; this log has rows.
    log_bin_trust_function_creators: "ON",
    server_id: "1",
    max_binlog_size: "16M",
    max_binlog_total_size: `${keptLogMb(sizes)}M`,
    // That holds also while nobody copies it: by default nothing would go then.
    slave_connections_needed_for_purge: "0",
    max_tmp_session_space_usage: `${sizes.sizeMb}M`,
    max_tmp_total_space_usage: `${sizes.sizeMb}M`,
    character_set_server: "utf8mb4",
    lower_case_table_names: "0",
    // What reaches files or other machines, or runs without a session.
    local_infile: "OFF",
    symbolic_links: "OFF",
    event_scheduler: "DISABLED",
    skip_name_resolve: "ON",
    // Each failed login would be a line.
    log_warnings: "1",
    default_time_zone: "+00:00",
  };
}
