// @pure
import { counted, countedDo, type Finding, fail, ok, shortReason, warn } from "../finding.ts";

/** How backups, and copies of databases, are put outside of this site. */
export interface OffsiteHealth {
  /** Which bucket; null: no setting names one. */
  place: string | null;
  /** Why the bucket is of no use now; null: it is. */
  problem: string | null;
  /** Backups that are all there. */
  whole: number;
  /** Complete ones that are not. */
  waiting: number;
  /** For how long the oldest of these has been complete. */
  waitingSeconds: number;
  /** Why one of these was not put there when that was tried last; null: nothing stood against it. */
  waitingProblem: string | null;
  /** Databases that are ready and kept on a node, of which not everything until an hour ago is there. */
  behind: number;
  /** Why one of these is not, when that was tried last; null: nothing stood against it. */
  behindProblem: string | null;
  /** Backups and copies in buckets that no setting names any more. */
  elsewhere: number;
}

/** A large file takes its time. */
const waitingSecondsMax = 3_600;

export function judgeOffsite(health: OffsiteHealth): Finding[] {
  const findings: Finding[] = [];
  if (health.elsewhere > 0)
    findings.push(
      warn(
        `${countedDo(health.elsewhere, "thing", ["is", "are"])} in a bucket that SVC_S3_… no longer names: backups, or copies of databases.`,
        "Nobody reads or deletes them there: set SVC_S3_… as before, or delete the objects yourself.",
      ),
    );
  const { place } = health;
  if (place === null) return findings;
  if (health.problem !== null)
    findings.push(
      fail(
        `The bucket at ${place} is of no use: ${shortReason(health.problem)}.`,
        "See the settings SVC_S3_…, and the bucket itself. Backups and copies are made all the same, and stay on this site alone.",
      ),
    );
  if (health.waitingSeconds > waitingSecondsMax)
    findings.push(
      warn(
        `${countedDo(health.waiting, "backup", ["is", "are"])} not off-site yet, the oldest after ${counted(Math.floor(health.waitingSeconds / 3_600), "hour")}${health.waitingProblem === null ? "" : `: ${shortReason(health.waitingProblem)}`}.`,
        "See the bucket, and control's log.",
      ),
    );
  if (health.behind > 0)
    findings.push(
      warn(
        `The copies of ${counted(health.behind, "database")} off-site lag an hour behind${health.behindProblem === null ? "" : `: ${shortReason(health.behindProblem)}`}.`,
        "See the bucket, the nodes that keep the copies, and control's log.",
      ),
    );
  findings.push(ok(`${countedDo(health.whole, "backup", ["is", "are"])} off-site, at ${place}.`));
  return findings;
}
