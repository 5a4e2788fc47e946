import type { MemberListResponse, StatusResponse } from "@svc/proto/etcd";
import type { Clock } from "@svc/runtime/clock";
import { metadata, unary } from "../grpc/adapter.ts";
import { type ConnectionOptions, dialMaintenance, isServiceError, type TlsOptions } from "./connection.ts";

/** What one endpoint said of itself, or why it said nothing. */
export type MemberReport =
  | {
      endpoint: string;
      version: string;
      /** On disk: what counts against the quota. */
      dbSizeBytes: number;
      dbSizeInUseBytes: number;
      /** Whether it knows of a leader among the members. */
      hasLeader: boolean;
      /** In etcd's own words: alarms that are raised, and what else it holds against itself. */
      complaints: string[];
      /** How many members the cluster is to have, as far as it knows. */
      members: number;
    }
  | { endpoint: string; error: string };

/** A member that has lost the others is to answer for itself all the same. */
const plain = metadata({});

/**
 * Asks every endpoint by itself, over connections of its own that are closed afterwards. Never rejects; an endpoint
 * that does not answer within `timeoutMs` is reported as such.
 */
export function askMembers(
  clock: Clock,
  { endpoints, tls }: Pick<ConnectionOptions, "endpoints" | "tls">,
  timeoutMs: number,
): Promise<MemberReport[]> {
  return Promise.all(endpoints.map((endpoint) => askMember(clock, endpoint, tls, timeoutMs)));
}

/** Endpoints over TLS that answer somebody without a certificate. Never rejects. */
export async function openMembers(
  clock: Clock,
  { endpoints, tls }: { endpoints: readonly string[]; tls: TlsOptions | null },
  timeoutMs: number,
): Promise<string[]> {
  const { cert: _, key: _key, ...anonymous } = tls ?? {};
  const secure = endpoints.filter((endpoint) => endpoint.startsWith("https:"));
  const reports = await askMembers(clock, { endpoints: secure, tls: anonymous }, timeoutMs);
  return reports.flatMap((report) => ("error" in report ? [] : [report.endpoint]));
}

async function askMember(
  clock: Clock,
  endpoint: string,
  tls: ConnectionOptions["tls"],
  timeoutMs: number,
): Promise<MemberReport> {
  const deadline = new Date(clock.now().getTime() + timeoutMs);
  try {
    using asked = dialMaintenance(endpoint, tls);
    const [status, list] = await Promise.all([
      unary<StatusResponse>((reply) => asked.maintenance.status({}, plain, { deadline }, reply)),
      unary<MemberListResponse>((reply) => asked.cluster.memberList({}, plain, { deadline }, reply)),
    ]);
    return {
      endpoint,
      version: status.version,
      dbSizeBytes: Number(status.dbSize),
      dbSizeInUseBytes: Number(status.dbSizeInUse),
      hasLeader: status.leader !== 0n,
      complaints: status.errors,
      members: list.members.length,
    };
  } catch (error) {
    return { endpoint, error: isServiceError(error) ? error.details : String(error) };
  }
}
