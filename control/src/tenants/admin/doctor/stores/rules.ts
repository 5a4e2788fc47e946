// @pure
import type { MemberReport } from "../../../../stores/etcd/index.ts";
import { counted, type Finding, fail, listed, ok, shortReason, warn } from "../finding.ts";

const mb = 1024 * 1024;
/** etcd's own default, and what it advises at the most is four times that; the quota itself is told by no call of it. */
const usualQuotaMb = 2048;

/** What etcd's members said of themselves. */
export function judgeEtcd(reports: readonly MemberReport[]): Finding[] {
  const members = reports.flatMap((report) => ("error" in report ? [] : [report]));
  const silent = reports.flatMap((report) => ("error" in report ? [report] : []));
  const consequence = "Until it is back nothing is placed, moved or routed anew; sites go on.";
  if (members.length === 0) {
    return [
      fail(
        `No etcd member answers: ${listed(silent.map(({ endpoint, error }) => `${endpoint} (${shortReason(error)})`))}.`,
        consequence,
      ),
    ];
  }
  const findings: Finding[] = [];
  const size = Math.max(...members.map((each) => each.members));
  for (const { endpoint, error } of silent) {
    const spare = members.some(({ hasLeader }) => hasLeader) && Math.floor((size - 1) / 2) - silent.length;
    const left = spare === false ? "" : spare > 0 ? ` Another ${spare} may fail.` : " No other may fail.";
    findings.push(
      fail(`The etcd member at ${endpoint} does not answer (${shortReason(error)}).`, `Start it again.${left}`),
    );
  }
  const lost = members.filter(({ hasLeader }) => !hasLeader);
  if (lost.length > 0)
    findings.push(fail(`${listed(lost.map(({ endpoint }) => endpoint))} of etcd knows no leader.`, consequence));
  for (const text of new Set(members.flatMap(({ complaints }) => complaints))) {
    const isFull = /nospace/i.test(text);
    findings.push(
      fail(
        `etcd says: ${text}.`,
        isFull
          ? "Compact and defragment every member, then take the alarm back: `etcdctl alarm disarm`."
          : "See `etcdctl alarm list` and etcd's own log.",
      ),
    );
  }
  for (const { endpoint, dbSizeBytes } of members) {
    const sizeMb = Math.round(dbSizeBytes / mb);
    if (sizeMb < usualQuotaMb * 0.75) continue;
    findings.push(
      warn(
        `The etcd member at ${endpoint} holds ${sizeMb} MiB; etcd's quota is ${usualQuotaMb} MiB unless set.`,
        "Turn on `--auto-compaction-retention`, then run `etcdctl defrag` on each member.",
      ),
    );
  }
  const versions = new Set(members.map(({ version }) => version));
  if (versions.size > 1)
    findings.push(warn(`etcd runs in versions ${listed([...versions])}.`, "Bring all members to one version."));
  if (size > reports.length)
    findings.push(
      warn(
        `SVC_ETCD_ENDPOINTS names ${reports.length} of ${size} members.`,
        "Name all of them, so that control finds another when one dies.",
      ),
    );
  if (size % 2 === 0)
    findings.push(
      warn(`etcd has ${size} members, of which no more may fail than of ${size - 1}.`, "Have an odd number of them."),
    );
  const largest = Math.round(Math.max(...members.map(({ dbSizeBytes }) => dbSizeBytes)) / mb);
  const spare = Math.floor((size - 1) / 2);
  findings.push(
    ok(
      `${members.length} of ${counted(size, "member")} of etcd ${[...versions].join(", ")} answer, ${largest} MiB; ${
        spare === 0 ? "none may fail" : `${spare} may fail`
      }.`,
    ),
  );
  return findings;
}

export interface PostgresFacts {
  version: string;
  connectionsUsed: number;
  connectionsMax: number;
  /** Migrations of this version that have not run, and ones that ran and this version does not know. */
  missing: readonly string[];
  unknown: readonly string[];
  /** It hears control from another host, without TLS. */
  isPlaintext: boolean;
}

export function judgePostgres({
  version,
  connectionsUsed,
  connectionsMax,
  missing,
  unknown,
  isPlaintext,
}: PostgresFacts): Finding[] {
  const findings: Finding[] = [];
  if (missing.length > 0) findings.push(fail(`The schema lacks ${listed(missing)}.`, "Run `svc-control migrate`."));
  if (unknown.length > 0)
    findings.push(
      warn(
        `The schema is of a newer version of control: it has ${listed(unknown)}.`,
        "Bring every replica of control to that version.",
      ),
    );
  const share = connectionsUsed / connectionsMax;
  const used = `${connectionsUsed} of ${connectionsMax} connections of Postgres are in use`;
  const more = "Raise max_connections: each replica of control takes up to 35.";
  if (share > 0.95) findings.push(fail(`${used}.`, more));
  else if (share > 0.8) findings.push(warn(`${used}.`, more));
  if (isPlaintext)
    findings.push(
      warn(
        "Postgres hears control from another host without TLS.",
        "Set `ssl = on` there, `hostssl` in its pg_hba.conf, and sslmode=verify-full in SVC_DATABASE_URL.",
      ),
    );
  findings.push(ok(`Postgres ${version} answers, ${used}; whether it is replicated and backed up is not looked at.`));
  return findings;
}

export interface RegistryFacts {
  host: string;
  /** Null: what was pushed is there. Else why not. */
  writeError: string | null;
}

export const judgeRegistry = ({ host, writeError }: RegistryFacts): Finding[] =>
  writeError === null
    ? [ok(`${host} answers, accepts the credential and takes what is pushed.`)]
    : [
        fail(
          `${host} answers and takes nothing: ${writeError}.`,
          "Look for a full disk and for read-only mode at the registry; no deploy gets through until it takes pushes.",
        ),
      ];
