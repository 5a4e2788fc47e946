// @pure

import type { NodeStatus } from "@svc/proto";
import type { TaskKind } from "@svc/proto/kinds";
import { newLeader } from "../../../../fleet/cluster/storm/rules.ts";
import { counted, countedDo, type Finding, fail, listed, ok, warn } from "../finding.ts";

/** One replica of control, as it is announced in etcd. What an older version does not tell is null. */
export interface ReplicaFacts {
  serverId: string;
  version: string | null;
  /** The first one seals. */
  masterKeyIds: readonly string[] | null;
  /** Its clock against that of Postgres. */
  clockOffsetMs: number | null;
  /** Where it serves the API. */
  address: string | null;
}

/** One machine of the fleet that is neither fenced nor removed. */
export interface MachineFacts {
  id: string;
  name: string;
  role: "node" | "edge";
  status: NodeStatus;
  version: string | null;
  /** Why somebody with its identity was turned away last. */
  refusal: string | null;
  diskFull: boolean;
  /** Why its engine must not build Dockerfiles of users; null when it may. */
  dockerfileProblem: string | null;
  /** When a drain that is under way should have ended. */
  drainDeadline: Date | null;
  certificateExpiresAt: Date | null;
  /** Its clock against control's; null when that is within a second, or the machine does not tell. */
  clockOffsetMs: number | null;
}

const short = (serverId: string) => serverId.slice(0, 8);
/** A replica by a part of its id, and by where it serves the API as far as that is known. */
function nameOf(serverId: string, replicas: readonly ReplicaFacts[]): string {
  const address = replicas.find((each) => each.serverId === serverId)?.address ?? null;
  return address === null ? short(serverId) : `${short(serverId)} at ${address}`;
}
const names = (machines: readonly MachineFacts[]) => listed(machines.map(({ name }) => name));
const dayMs = 86_400_000;

export function judgeLeader(
  leaderId: string | null,
  storm: { reason: string; since: string } | null,
  replicas: readonly ReplicaFacts[],
): Finding[] {
  if (leaderId === null)
    return [
      fail("No replica of control leads: nothing is placed or routed anew.", "Look at etcd, and at control's log."),
    ];
  const isAnnounced = replicas.some(({ serverId }) => serverId === leaderId);
  const leads = `${nameOf(leaderId, replicas)} leads ${counted(replicas.length, "replica")} of control.`;
  const findings = [
    isAnnounced
      ? ok(leads)
      : warn(`The leader ${short(leaderId)} is not announced.`, "Another leads within seconds if it is gone."),
  ];
  if (storm !== null)
    findings.push(
      warn(
        `Nothing is moved off lost nodes since ${clockText(storm.since)}: ${storm.reason}.`,
        storm.reason === newLeader
          ? "Wait half a minute: by then it knows which nodes are there."
          : "Bring the nodes back, or fence those that are off with `svc admin nodes force-fence`.",
      ),
    );
  return findings;
}

/** A moment for people: `14:03:05 UTC on 2030-01-31`. */
export const clockText = (iso: string): string => `${iso.slice(11, 19)} UTC on ${iso.slice(0, 10)}`;

const offsetWarnMs = 2_000;
const offsetFailMs = 30_000;
const seconds = (ms: number) => `${(Math.abs(ms) / 1000).toFixed(1)} s ${ms < 0 ? "behind" : "ahead"}`;

function judgeClock(who: string, offsetMs: number): Finding[] {
  const hint = "Let a time service set it: chrony or systemd-timesyncd.";
  const away = Math.abs(offsetMs);
  if (away > offsetFailMs) return [fail(`The clock of ${who} is ${seconds(offsetMs)}.`, hint)];
  return away > offsetWarnMs ? [warn(`The clock of ${who} is ${seconds(offsetMs)}.`, hint)] : [];
}

/** @param own of the replica that answers, against that of Postgres */
export function judgeClocks(
  own: { serverId: string; offsetMs: number; withinMs: number },
  replicas: readonly ReplicaFacts[],
  machines: readonly MachineFacts[],
): Finding[] {
  const others = replicas.filter(({ serverId }) => serverId !== own.serverId);
  return [
    ...judgeClock(`control ${nameOf(own.serverId, replicas)}`, own.offsetMs),
    ...others.flatMap(({ serverId, clockOffsetMs }) =>
      judgeClock(`control ${nameOf(serverId, replicas)}`, clockOffsetMs ?? 0),
    ),
    ...machines.flatMap(({ name, clockOffsetMs }) => judgeClock(name, clockOffsetMs ?? 0)),
    ok(
      `This replica is ${seconds(own.offsetMs)}${own.offsetMs < 0 ? "" : " of"} Postgres, measured to ${(own.withinMs / 1000).toFixed(2)} s; machines within 2 s of control are passed over.`,
    ),
  ];
}

export function judgeCertificates(machines: readonly MachineFacts[], authorityUntil: Date, now: Date): Finding[] {
  const left = (at: Date) => at.getTime() - now.getTime();
  const ends = machines.flatMap((machine) =>
    machine.certificateExpiresAt === null ? [] : [{ ...machine, leftMs: left(machine.certificateExpiresAt) }],
  );
  const over = ends.filter(({ leftMs }) => leftMs <= 0);
  const soon = ends.filter(({ leftMs }) => leftMs > 0 && leftMs < 7 * dayMs);
  const findings: Finding[] = [];
  if (over.length > 0)
    findings.push(
      fail(
        `The certificate of ${names(over)} is over.`,
        "Let it join anew with a token of `svc admin nodes bootstrap-token create`.",
      ),
    );
  if (soon.length > 0)
    findings.push(
      warn(
        `The certificate of ${names(soon)} ends within a week.`,
        "It should have renewed itself long ago: look at its log and whether it is connected.",
      ),
    );
  const authorityDays = Math.floor(left(authorityUntil) / dayMs);
  const until = `The cluster's authority ends on ${authorityUntil.toISOString().slice(0, 10)}`;
  const rotate = "Replace it while every machine is connected; see the section on certificates in docs/cluster.md.";
  if (authorityDays < 30) findings.push(fail(`${until}.`, rotate));
  else if (authorityDays < 365) findings.push(warn(`${until}.`, rotate));
  const first = ends.reduce<number | null>((least, { leftMs }) => Math.min(least ?? leftMs, leftMs), null);
  findings.push(
    ok(first === null ? `${until}.` : `The first certificate ends in ${Math.floor(first / dayMs)} days. ${until}.`),
  );
  return findings;
}

export function judgeSecrets(replicas: readonly ReplicaFacts[]): Finding[] {
  const known = replicas.filter((replica) => replica.masterKeyIds !== null);
  const sealing = new Set(known.flatMap(({ masterKeyIds }) => masterKeyIds?.slice(0, 1) ?? []));
  const all = new Set(known.flatMap(({ masterKeyIds }) => masterKeyIds ?? []));
  const findings: Finding[] = [];
  for (const { serverId, masterKeyIds } of known) {
    const lacks = [...sealing].filter((id) => !masterKeyIds?.includes(id));
    if (lacks.length > 0)
      findings.push(
        fail(
          `Control ${nameOf(serverId, replicas)} cannot open what others seal: it lacks master key ${listed(lacks)}.`,
          "Give every replica the same SVC_MASTER_KEY_FILE and restart it.",
        ),
      );
  }
  if (
    findings.length === 0 &&
    (sealing.size > 1 || known.some(({ masterKeyIds }) => masterKeyIds?.length !== all.size))
  )
    findings.push(
      warn(
        "Replicas of control do not have the same master keys: a rotation is under way.",
        "Restart the replicas that have the older file.",
      ),
    );
  else if (all.size > 1)
    findings.push(
      warn(
        `${all.size} master keys are in use.`,
        "Run `svc-control rotate-key`, and remove the old line once `rotate-key --check` allows it.",
      ),
    );
  if (known.length < replicas.length)
    findings.push(
      warn(
        `${countedDo(replicas.length - known.length, "replica", ["of control does not tell its master keys", "of control do not tell their master keys"])}.`,
        "Bring every replica to this version.",
      ),
    );
  findings.push(ok(`${counted(known.length, "replica")} of control with ${counted(all.size, "master key")}.`));
  return findings;
}

export function judgeVersions(replicas: readonly ReplicaFacts[], machines: readonly MachineFacts[]): Finding[] {
  const byVersion = new Map<string, string[]>();
  const note = (version: string, who: string) => byVersion.set(version, [...(byVersion.get(version) ?? []), who]);
  for (const { serverId, version } of replicas) note(version ?? "older", `control ${nameOf(serverId, replicas)}`);
  for (const { name, version } of machines) if (version !== null) note(version, name);
  const told = [...byVersion].map(([version, who]) => `${version}: ${listed(who, 3)}`);
  return byVersion.size > 1
    ? [
        warn(
          `Several versions are at work (${told.join("; ")}).`,
          "Bring all to one: control first, then routers, then agents.",
        ),
      ]
    : [ok(told.length === 0 ? "Nothing tells its version." : `All are of version ${[...byVersion.keys()].join()}.`)];
}

export function judgeNodes(machines: readonly MachineFacts[], now: Date): Finding[] {
  const nodes = machines.filter(({ role }) => role === "node");
  const are = (...statuses: NodeStatus[]) => nodes.filter(({ status }) => statuses.includes(status));
  const ready = are("ready");
  const findings: Finding[] = [];
  if (nodes.length === 0)
    return [
      fail("No node has joined: nothing can be built or run.", "See `svc admin nodes bootstrap-token create --help`."),
    ];
  if (ready.length === 0) findings.push(fail("No node takes new work.", "See why with `svc admin nodes list`."));
  for (const { name, refusal } of nodes)
    if (refusal !== null)
      findings.push(
        fail(
          `A machine with the identity of ${name} was turned away: ${refusal}.`,
          `When it is this node, set its SVC_AGENT_ADDRESS right or run \`svc admin nodes readdress ${name} <address>\`; when it is not, fence the node.`,
        ),
      );
  const lost = are("unreachable");
  if (lost.length > 0)
    findings.push(
      fail(
        `${names(lost)}: no contact.`,
        "Bring it back; or, when it is certainly off, `svc admin nodes force-fence <node>`.",
      ),
    );
  const cloned = are("quarantined");
  if (cloned.length > 0)
    findings.push(
      fail(
        `${names(cloned)}: two machines use this identity.`,
        "Turn the copy off, fence the node, and let the machine join anew.",
      ),
    );
  const suspect = are("suspect");
  if (suspect.length > 0)
    findings.push(warn(`${names(suspect)}: silent for a moment.`, "Look again in half a minute."));
  const late = nodes.filter(
    ({ status, drainDeadline }) => status === "draining" && drainDeadline !== null && drainDeadline < now,
  );
  if (late.length > 0)
    findings.push(
      warn(
        `The drain of ${names(late)} did not end in time.`,
        "See what holds it up with `svc admin nodes show <node>`.",
      ),
    );
  const unsafe = machines.filter(({ dockerfileProblem }) => dockerfileProblem !== null);
  if (unsafe.length > 0)
    findings.push(
      warn(
        `${names(unsafe)}: no Dockerfiles of users are built there (${unsafe[0]?.dockerfileProblem}).`,
        "Bring the container engine up to date, or let it remap users: see docs/hardening.md.",
      ),
    );
  findings.push(
    ok(`${ready.length} of ${counted(nodes.length, "node")} takes new work.`.replace(/^(?!1 of)(.*) takes/, "$1 take")),
  );
  return findings;
}

export function judgeDisk(machines: readonly MachineFacts[]): Finding[] {
  const full = machines.filter(({ diskFull }) => diskFull);
  const unseen = "Disks of Postgres, etcd, the registry and edges cannot be seen from here.";
  return full.length === 0
    ? [ok(`Every node has room on its disks. ${unseen}`)]
    : [
        warn(
          `${names(full)}: too little disk space for new work.`,
          "Make room on the disk of its container engine, or give it a larger one.",
        ),
        ok(unseen),
      ];
}

/** What one edge serves, as it said last. */
export interface EdgeFacts {
  id: string;
  name: string;
  isConnected: boolean;
  /** Null before it has applied any table. */
  generation: number | null;
  error: string | null;
  hostsBehind: number;
}

export function judgeEdges(edges: readonly EdgeFacts[], generation: number): Finding[] {
  if (edges.length === 0)
    return [
      fail("No edge has joined: nobody reaches any site.", "See `svc admin nodes bootstrap-token create --role edge`."),
    ];
  const findings = edges.flatMap(({ name, isConnected, generation: served, error, hostsBehind }): Finding[] => {
    if (!isConnected)
      return [
        fail(
          `${name}: no contact. It goes on serving what it has, and holds up what has to leave it.`,
          "Start its router; or, when it is certainly off, `svc admin nodes force-fence <edge>`.",
        ),
      ];
    if (error !== null) return [fail(`${name} cannot serve all of its table: ${error}.`, "Look at its router's log.")];
    if (served === null || served < generation)
      return [
        warn(`${name} serves table ${served ?? "none"}, the newest is ${generation}.`, "Look again in half a minute."),
      ];
    return hostsBehind > 0
      ? [warn(`${name} still fetches the files of ${counted(hostsBehind, "host")}.`, "Look again in a minute.")]
      : [];
  });
  const well = edges.length - findings.length;
  return [...findings, ok(`${well} of ${counted(edges.length, "edge")} at table ${generation}.`)];
}

export interface WorkFacts {
  /** By kind: given up; due for more than five minutes; failed three times or more and tried again. */
  kinds: readonly { kind: string; failed: number; overdue: number; failing: number }[];
}

export function judgeWork({ kinds }: WorkFacts): Finding[] {
  const findings = kinds.flatMap(({ kind, failed, overdue, failing }): Finding[] => [
    ...(overdue > 0
      ? [
          fail(
            `${countedDo(overdue, "work item", [`of kind ${kind} waits`, `of kind ${kind} wait`])} for more than five minutes.`,
            "Look at control's log for what its workers do.",
          ),
        ]
      : []),
    ...(failing > 0
      ? [
          warn(
            `${countedDo(failing, "work item", [`of kind ${kind} keeps failing`, `of kind ${kind} keep failing`])}.`,
            `Look in control's log for "work failed".`,
          ),
        ]
      : []),
    ...(failed > 0
      ? [
          warn(
            `${countedDo(failed, "work item", [`of kind ${kind} was`, `of kind ${kind} were`])} given up within the last day.`,
            `Look in control's log for "work failed".`,
          ),
        ]
      : []),
  ]);
  return [...findings, ...(findings.length === 0 ? [ok("No work is late, and none keeps failing.")] : [])];
}

export interface WaitingTask {
  taskId: string;
  deploymentId: string;
  kind: TaskKind;
  waitsMs: number;
  /** How many nodes each reason kept away. */
  refused: Readonly<Record<string, number>>;
}

export function judgePlacements(waiting: readonly WaitingTask[], total: number): Finding[] {
  if (total === 0) return [ok("Every task has its node.")];
  const long = waiting.filter(({ waitsMs }) => waitsMs > 60_000);
  if (long.length === 0)
    return [ok(`${countedDo(total, "task", ["waits", "wait"])} for a node, none for more than a minute.`)];
  return long.map(({ deploymentId, kind, waitsMs, refused }) => {
    const reasons = Object.entries(refused).map(([reason, nodes]) => `${reason} (${nodes})`);
    return warn(
      `A ${kind === "build" ? "build" : "container"} of deployment ${deploymentId} waits for a node for ${Math.floor(waitsMs / 60_000)} min: ${listed(reasons)}.`,
      `See \`svc admin nodes explain ${deploymentId}\`, and add or uncordon a node.`,
    );
  });
}
