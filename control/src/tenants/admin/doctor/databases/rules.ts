// @pure
import { counted, countedDo, type Finding, fail, listed, ok, warn } from "../finding.ts";

/** How safe the data of a branch that is ready is. */
export interface CopyHealth {
  project: string;
  channel: string;
  /** Null: there is no copy. */
  copy: {
    state: "basing" | "following" | "broken";
    problem: string | null;
    /** It is on another node than the data. */
    isElsewhere: boolean;
    /** Null: nothing is in it. */
    lagSeconds: number | null;
    ageSeconds: number;
  } | null;
  /** Another node could have it, as far as there is one. */
  hasOtherNode: boolean;
  /** Of the newest proof that has a verdict: why it failed; null: it did not, or there is none. */
  proofProblem: string | null;
}

const lagSecondsMax = 900;
/** A branch that is ready has a copy soon, and a large one takes its time to be whole. */
const basingSecondsMax = 6 * 3_600;

/** What operators are told of copies of databases. */
export function judgeCopies(branches: readonly CopyHealth[]): Finding[] {
  const findings = branches.flatMap((branch) => judge(branch) ?? []);
  if (findings.length > 0) return findings;
  if (branches.length === 0) return [ok("There is no database.")];
  const elsewhere = branches.filter(({ copy }) => copy?.isElsewhere === true).length;
  return [ok(`${countedDo(elsewhere, "database", ["has", "have"])} a copy on another node, of ${branches.length}.`)];
}

function judge({ project, channel, copy, hasOtherNode, proofProblem }: CopyHealth): Finding[] | null {
  const name = `The ${channel} database of ${project}`;
  const findings: Finding[] = [];
  if (proofProblem !== null) {
    findings.push(
      fail(`${name} could not be restored from its copy: ${proofProblem}`, "Take a backup, and read the log."),
    );
  }
  if (copy === null) {
    return [...findings, warn(`${name} has no copy.`, "Look for a node that takes one: its disk, its labels.")];
  }
  if (copy.state === "broken") {
    const why = copy.problem ?? "its node does not say why";
    findings.push(fail(`The copy of ${name.slice(4)} is broken: ${why}.`, "Look at the node; a new one is made."));
  } else if (copy.state === "following" && (copy.lagSeconds ?? Number.POSITIVE_INFINITY) > lagSecondsMax) {
    findings.push(warn(`The copy of ${name.slice(4)} lags ${copy.lagSeconds} s behind.`, "Look at both nodes."));
  } else if (copy.state === "basing" && copy.ageSeconds > basingSecondsMax) {
    findings.push(warn(`The copy of ${name.slice(4)} is not whole yet.`, "Look at the log of its node."));
  }
  if (!copy.isElsewhere && hasOtherNode) {
    findings.push(
      warn(`${name} has its copy on its own node.`, "Look why no other one takes it: disk, labels, drains."),
    );
  }
  return findings.length === 0 ? null : findings;
}

/** Volumes of databases that a node tells of, and that nobody knows. */
export interface UnknownVolumes {
  node: string;
  names: readonly string[];
}

/** The platform removes what it knows alone: nobody else can say whether these are of use. */
export const judgeUnknownVolumes = (nodes: readonly UnknownVolumes[]): Finding[] =>
  nodes.map(({ node, names }) =>
    warn(
      `${node} has ${counted(names.length, "volume")} of databases that nobody knows: ${listed(names)}.`,
      "Look whose data it is; if it is of no use, remove it with the engine of that machine.",
    ),
  );

/** A branch that nobody can use. */
export interface DownDatabase {
  project: string;
  channel: string;
  /** Of the machine that has its data; null: nobody knows one. */
  node: string | null;
  /** Why it is in error; null: it is not, but its server does not serve. */
  reason: string | null;
}

export const judgeServers = (databases: readonly DownDatabase[]): Finding[] =>
  databases.map(({ project, channel, node, reason }) =>
    reason === null
      ? fail(
          `The server of the ${channel} database of ${project} does not serve.`,
          `Look at its log and its disk on ${node ?? "its machine"}: it is started again until it does.`,
        )
      : fail(
          `The ${channel} database of ${project} is in error: ${reason}`,
          `See \`svc admin db show ${project}/${channel}\`.`,
        ),
  );

/** A restore, a move or an upgrade of a branch, from when its tenant is kept out on. */
export interface ChangeHealth {
  project: string;
  channel: string;
  kind: string;
  state: "freezing" | "draining" | "stopping" | "restoring";
  /** Since it is in that state. */
  seconds: number;
}

/** Most are over in seconds, but a silent machine is waited for, and a large dump takes its time to load. */
const changingSecondsMax = { freezing: 300, draining: 300, stopping: 300, restoring: 3_600 } as const;

/** Changes that keep tenants out for longer than they should. */
export const judgeChanges = (changes: readonly ChangeHealth[]): Finding[] =>
  changes
    .filter(({ state, seconds }) => seconds > changingSecondsMax[state])
    .map(({ project, channel, kind, state, seconds }) =>
      fail(
        `The ${kind} of the ${channel} database of ${project} has been ${state} for ${Math.floor(seconds / 60)} min.`,
        `See what it waits for with \`svc admin db show ${project}/${channel}\`, and look at the machines that this names.`,
      ),
    );
