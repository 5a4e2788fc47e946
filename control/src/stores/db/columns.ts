import type { AlertChannel, AlertEvent, Channel, Crashing } from "@svc/proto";
import type { ColumnType } from "kysely";

/** May be left out when a row is written, as kysely's own `T | null` may, and may be given as undefined. */
export type Nullable<T> = ColumnType<T | null, T | null | undefined, T | null>;

type Labels = Record<string, string>;
/** JSON text: the driver makes a Postgres array of a bare one. Labels are never one, and may be written as they are. */
type Written<T> = T extends Labels ? T | string : string;

/** jsonb: read as a value, written as JSON text. */
export type Json<T> = ColumnType<T, Written<T>, Written<T>>;
export type GeneratedJson<T> = ColumnType<T, Written<T> | undefined, Written<T>>;
export type NullableJson<T> = ColumnType<T | null, Written<T> | null | undefined, Written<T> | null>;

/** A table of a branch as its server has it. */
export interface SourceTable {
  schema: string;
  name: string;
  /** Another one whenever anything was written to the table meanwhile; null: nobody can tell. */
  counter: string | null;
  /** Null: they were not counted. */
  rows: number | null;
}

/** Part of a file of a copy, as that was: see `tenants/databases/copies/offsite/rules.ts`. */
export interface ShippedPart {
  path: string;
  version: string;
  at: number;
  length: number;
}

/** A whole copy of a branch, from which every moment since can be restored. */
export interface CopyBase {
  number: number;
  /** RFC 3339, by the clock of the server that is copied. */
  at: string;
  bytes: number;
  /** RFC 3339: no later moment can be restored from it, since changes are missing after that; absent: none are. */
  until?: string;
}

/**
 * What is in columns of which the database itself only knows that they are jsonb, or text. The generated types name an
 * entry for each column of jsonb, so one that is missing here does not compile.
 */
export interface ColumnValues {
  /** Digests that it names; null: no blob there. */
  "account_manifest.parts": Record<string, number | null>;
  /** What differs from what is usual: see `tenants/alerts/rules.ts`. */
  "alert_setting.choices": Partial<Record<AlertEvent, Partial<Record<AlertChannel, boolean>>>>;
  /** See `tenants/alerts/steps.ts`. */
  "alert_setting.waiting": unknown;
  /** See `fleet/analytics/data.ts`. */
  "analytics_day.data": unknown;
  "analytics_hour.data": unknown;
  "analytics_month.data": unknown;
  /** How many by day, YYYY-MM-DD. */
  "analytics_month.visitors": Record<string, number>;
  "api_token.scopes": unknown;
  "audit.detail": unknown;
  "bootstrap_token.addresses": string[];
  "channel_state.channel": Channel;
  /** The oldest first. */
  "database_copy.bases": CopyBase[];
  "deployment.manifest": unknown;
  "idempotency.body": unknown;
  "log_reply.exit": { code: number | null; oomKilled: boolean; reason: string; at: string };
  "node.addresses": string[];
  "node.capacity": { memoryMb: number; cpuMillicores: number; pids: number; diskMb: number };
  "node.labels": Labels;
  "node.operator_labels": Labels;
  "node.platform": { os: string; architecture: string };
  "offsite_copy.bases": CopyBase[];
  "offsite_object.parts": ShippedPart[];
  "plan.node_selector": Labels;
  /** Of its tables, what a look at the server itself found; see `tenants/databases/proofs`. */
  "restore_proof.source": SourceTable[];
  "task.channel": Channel;
  "task.crashing": Crashing;
  "task.node_selector": Labels;
  /** How many nodes each filter refused. */
  "task.refused": Record<string, number>;
  "task.spec": unknown;
  "work_item.payload": unknown;
}

/** Columns of text that hold one of a few words although no constraint says so. */
export const unconstrainedWords: readonly string[] = [
  "channel_state.channel",
  "task.channel",
] satisfies (keyof ColumnValues)[];
