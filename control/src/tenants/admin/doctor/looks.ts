import { X509Certificate } from "node:crypto";
import { Readable } from "node:stream";
import type { OperatorCheckName } from "@svc/proto";
import { findCluster } from "../../../fleet/ca/store.ts";
import { listNodeRows } from "../../../fleet/nodes/store.ts";
import { listNodes } from "../../../fleet/nodes/view.ts";
import { plaintextUses } from "../../../settings/plaintext.ts";
import { clockOffset } from "../../../stores/db/clock.ts";
import { schemaState } from "../../../stores/db/migrate.ts";
import { serversOf } from "../../../stores/dns/resolver.ts";
import { createBucket, placeOf } from "../../../stores/s3/bucket.ts";
import { probeBucket } from "../../../stores/s3/probe.ts";
import type { TenantContext } from "../../context.ts";
import { judgeOffsite } from "./databases/offsite.ts";
import { judgeChanges, judgeCopies, judgeServers, judgeUnknownVolumes } from "./databases/rules.ts";
import {
  readChangeHealth,
  readCopyHealth,
  readDownDatabases,
  readOffsiteHealth,
  readUnknownVolumes,
} from "./databases/store.ts";
import { judgeDomains } from "./domains/rules.ts";
import { readDomainHealth } from "./domains/store.ts";
import { judgeContent, judgeOpenEtcd, judgePlaintext } from "./exposure.ts";
import type { Finding } from "./finding.ts";
import { judgeJobs } from "./jobs/rules.ts";
import { readJobHealth } from "./jobs/store.ts";
import {
  judgeCertificates,
  judgeClocks,
  judgeDisk,
  judgeEdges,
  judgeLeader,
  judgeNodes,
  judgePlacements,
  judgeSecrets,
  judgeVersions,
  judgeWork,
  type MachineFacts,
} from "./machines/rules.ts";
import { judgeIssuingEdges, judgeSiteCertificates } from "./site-certificates/rules.ts";
import { readIssuingEdges, readSiteCertificates } from "./site-certificates/store.ts";
import { readPostgres, readWaiting, readWork } from "./store.ts";
import { judgeEtcd, judgePostgres, judgeRegistry } from "./stores/rules.ts";

export type Looks = Readonly<Record<OperatorCheckName, () => Promise<Finding[]>>>;
type Parts = Pick<TenantContext, "config" | "db" | "fleet" | "registry" | "operators" | "clock" | "random">;

/** Less than a check has, so that a member that is away is told from a check that took too long. */
export const memberMs = 3_000;
/** For the same reason: what else is wrong with databases is not to be lost behind a bucket that is away. */
const bucketMs = 3_000;
/**
 * What is pushed to see whether the registry takes it: always the same bytes, which it keeps once. As a stream, because
 * bytes that are known beforehand are only pushed when they are not there yet.
 */
const probeRepository = "svc/doctor";
const probe = Buffer.from("svc asks whether this registry can be written to\n");

/** One look for each check. Facts that several need are read once. */
export function createLooks({ config, db, fleet, registry, operators, clock, random }: Parts): Looks {
  const plaintext = plaintextUses({
    ...{ apiUrl: config.apiUrl, etcdEndpoints: config.etcd.endpoints },
    ...{ databaseUrl: config.databaseUrl, registryUrl: config.registry.url },
    s3Endpoint: config.offsite?.endpoint,
  });
  const machines = once(() => readMachines(db, fleet));
  const clocks = once(() => operators.clockOffsets());
  const lookOffsite = async (): Promise<Finding[]> => {
    const { offsite: settings } = config;
    const place = settings && placeOf(settings);
    const asked = settings && createBucket({ clock, random }, settings, { attempts: 1 });
    const [health, problem] = await Promise.all([
      readOffsiteHealth(db, place),
      asked && probeBucket(clock, asked, bucketMs),
    ]);
    return judgeOffsite({ ...health, place, problem });
  };
  const ofRole = async (role: "node" | "edge") => (await machines()).filter((each) => each.role === role);
  return {
    leader: async () => judgeLeader(await operators.leaderId(), operators.storm(), operators.replicas()),
    async etcd() {
      const [members, open] = await Promise.all([operators.etcdMembers(memberMs), operators.openEtcdMembers(memberMs)]);
      return [...judgeEtcd(members), ...judgePlaintext(plaintext, "etcd"), ...judgeOpenEtcd(open)];
    },
    postgres: async () => judgePostgres({ ...(await readPostgres(db)), ...(await schemaState(db)) }),
    async registry() {
      await registry.ping();
      const host = new URL(config.registry.url).host;
      const writeError = await registry
        .pushBlob(probeRepository, () => Readable.from([probe]))
        .then(
          () => null,
          (error: unknown) => (error instanceof Error ? error.message : String(error)),
        );
      return [...judgeRegistry({ host, writeError }), ...judgePlaintext(plaintext, "registry")];
    },
    async clocks() {
      const own = await clockOffset(operators.machineClock ?? clock, db);
      const offsets = await clocks();
      const fleetClocks = (await machines()).map((each) => ({ ...each, clockOffsetMs: offsets.get(each.id) ?? null }));
      return judgeClocks({ serverId: operators.serverId, ...own }, operators.replicas(), fleetClocks);
    },
    async certificates() {
      const cluster = await findCluster(db);
      if (cluster === null) throw new Error("the cluster has no authority yet");
      const authorityEnds = new Date(new X509Certificate(cluster.caCertificate).validTo);
      return [
        ...judgeCertificates(await machines(), authorityEnds, clock.now()),
        ...judgeSiteCertificates(await readSiteCertificates(db, config.acme), clock.now()),
        ...judgeIssuingEdges(await readIssuingEdges(db, fleet, config.acme)),
        ...judgePlaintext(plaintext, "api"),
      ];
    },
    secrets: async () => judgeSecrets(operators.replicas()),
    versions: async () => judgeVersions(operators.replicas(), await machines()),
    nodes: async () => judgeNodes(await machines(), clock.now()),
    disk: async () => judgeDisk(await ofRole("node")),
    async edges() {
      const edges = (await ofRole("edge")).map(({ id, name }) => {
        const served = operators.servedBy(id);
        return {
          ...{ id, name, isConnected: fleet.isConnected(id) },
          ...{ generation: served?.generation ?? null, error: served?.error ?? null },
          hostsBehind: served?.hostsBehind ?? 0,
        };
      });
      return [...judgeEdges(edges, operators.routesGeneration()), ...judgeContent(config.content, config.apiUrl)];
    },
    async placements() {
      const { waiting, total } = await readWaiting(db);
      return judgePlacements(waiting, total);
    },
    work: async () => judgeWork(await readWork(db)),
    jobs: async () => judgeJobs(await readJobHealth(db)),
    domains: async () => judgeDomains(await readDomainHealth(db), serversOf(config.domains.dnsServers).length),
    async databases() {
      const [down, copies, changes, unknown, offsite] = await Promise.all([
        readDownDatabases(db),
        readCopyHealth(db),
        readChangeHealth(db),
        readUnknownVolumes(db),
        lookOffsite(),
      ]);
      return [
        ...[...judgeServers(down), ...judgeCopies(copies), ...judgeChanges(changes), ...judgeUnknownVolumes(unknown)],
        ...[...offsite, ...judgePlaintext(plaintext, "s3")],
      ];
    },
  };
}

function once<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | null = null;
  return () => {
    reading ??= read();
    return reading;
  };
}

/** Every machine that is neither fenced nor removed. */
async function readMachines(db: Parts["db"], fleet: Parts["fleet"]): Promise<MachineFacts[]> {
  const [views, rows] = await Promise.all([listNodes(db, fleet), listNodeRows(db)]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return views.flatMap(({ id, name, role, status, version, refusal }) => {
    const row = byId.get(id);
    if (row === undefined || status === "fenced" || status === "removed") return [];
    return [
      {
        ...{ id, name, role, status, version, refusal },
        diskFull: row.disk_full,
        dockerfileProblem: row.dockerfile_problem,
        drainDeadline: row.drain_deadline,
        certificateExpiresAt: row.certificate_expires_at,
        clockOffsetMs: null,
      },
    ];
  });
}
