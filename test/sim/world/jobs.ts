import type { OpenAttempt } from "@svc/control/fleet/tasks/owners/owner";
import type { MemoryTransaction } from "@svc/control/fleet/testing/tables";
import type { Job } from "@svc/control/stores/db/tables";
import { Refused } from "@svc/control/stores/refused";
import type { Definition } from "@svc/control/tenants/jobs/definitions/rules";
import { requestScheduled } from "@svc/control/tenants/jobs/testing/memory/change";
import { requestCancel, requestRun } from "@svc/control/tenants/jobs/testing/memory/request";
import type { Replica } from "../control/replica.ts";
import { transactOf } from "../control/transact.ts";
import { hashText } from "../kernel/random.ts";
import { DatabaseError, type SiteRow, type Tables } from "../stores/postgres.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

const minuteMs = 60_000;
const names = ["report", "mail"] as const;

/** What the manifest of a deployment has its channel do by schedule: mostly the same jobs, and now and then one more or less. */
export function defineJobs({ random }: World, tables: Tables, deploymentId: string, site: SiteRow): void {
  const ofSite = random.fork(`jobs of ${site.host}`);
  const own = random.fork(`jobs of ${deploymentId}`);
  const most = ofSite.pick([0, 1, 2, 2]);
  const definitions = names.slice(0, most).flatMap((name): Definition[] =>
    own.chance(0.15)
      ? []
      : [
          {
            ...{ name, schedule: "* * * * *", timezone: "UTC", retries: own.int(0, 2) },
            ...{ overlap: own.pick(["skip", "queue"]), timeoutSeconds: own.pick([10, 30]), enabled: own.chance(0.95) },
          },
        ],
  );
  tables.jobs.definitions.set(deploymentId, definitions);
}

/** What an attempt does: the same for the same one. Some run for longer than they may, or into the next minute. */
function commandOf(attemptId: string): string {
  const chance = hashText(attemptId);
  const seconds = [1, 2, 3, 5, 8, 15, 25, 70][chance % 8];
  return `sleep ${seconds}; exit ${Math.floor(chance / 8) % 4 === 0 ? 3 : 0}`;
}

/** What a node is told of an attempt at a run of a job, as `control/src/fleet/tasks/run-kinds/job.ts` has it; null: it is no such. */
export function findJobCommand({ jobs }: Tables, attemptId: string) {
  const run = jobs.runs.get(jobs.attempts.get(attemptId)?.owner_id ?? "");
  const name = jobs.jobs.get(run?.job_id ?? "")?.name;
  const definition = jobs.definitions.get(run?.deployment_id ?? "")?.find((each) => each.name === name);
  if (run === undefined || definition === undefined) return null;
  return {
    ...{ projectId: run.project_id, deploymentId: run.deployment_id, ownerKind: "job", ownerId: run.id, kind: "job" },
    ...{ command: commandOf(attemptId), timeoutSeconds: definition.timeoutSeconds },
  };
}

/** As `listOpenAttempts` of `control/src/fleet/tasks/owners/job.ts`. */
export const openJobAttempts = ({ jobs }: Tables): OpenAttempt[] =>
  [...jobs.open.values()].flatMap(({ id, status, project_id: projectId }) =>
    status !== "running" && status !== "cancel_requested"
      ? []
      : (jobs.attemptsOf.get(id) ?? [])
          .filter(({ outcome }) => outcome === null)
          .map((attempt) => ({
            ...{
              attemptId: attempt.id,
              kind: "job",
              ownerKind: "job",
              ownerId: id,
              projectId,
              nodeId: attempt.node_id,
            },
          })),
  );

/** What one owner of a job does, or that Postgres is away, and with it the clock of all. */
export function actOnJobs(
  world: World,
  replica: Replica,
  kind: "runJob" | "cancelRun" | "switchJob" | "awayPostgres",
  { a, ms, x }: Pick<Deed, "a" | "ms" | "x">,
): void {
  const { postgres, kernel } = world;
  if (kind === "awayPostgres") {
    // From just before a minute until long after the next one, so that two instants of each job pass.
    const untilMs = (2 * minuteMs - 2_000 - (postgres.nowMs() % minuteMs)) % minuteMs;
    kernel.at(untilMs, "postgres away", () => {
      if (world.isCalm) return;
      postgres.isUp = false;
      kernel.at(minuteMs + 36_000 + Math.min(ms, 30_000), "postgres up", () => {
        postgres.isUp = true;
      });
    });
    return;
  }
  ask(replica, (tx) => {
    const { jobs } = tx.tables;
    const live = [...jobs.jobs.values()].filter(({ retired_at }) => retired_at === null);
    const job = live[a % Math.max(live.length, 1)];
    if (kind === "cancelRun") {
      const open = [...jobs.open.values()];
      const run = open[a % Math.max(open.length, 1)];
      if (run !== undefined) requestCancel(tx, run.project_id, run.id);
    } else if (job === undefined) return;
    else if (kind === "runJob") {
      const { run } = requestRun(tx, job.project_id, job.id, null);
      // Whoever changes their mind does so while it is on its way.
      const cancel = () => ask(replica, (later) => void requestCancel(later, run.project_id, run.id));
      if (x < 0.4) kernel.at(ms % 8_000, "run canceled", cancel);
    } else {
      say(world, tx, job, x < 0.6);
    }
  });
}

/** The owner switches a job on or off. Of one that is not the channel's any more nothing can be said. */
function say({ checks }: World, tx: MemoryTransaction<Tables>, job: Job, isOn: boolean): void {
  if (requestScheduled(tx, job.project_id, job.id, isOn) !== null) checks.jobs.onSaid(job, isOn);
}

/** What somebody asks of a replica for, which may refuse it, or not answer. */
function ask(replica: Replica, work: (tx: MemoryTransaction<Tables>) => void): void {
  if (!replica.process.alive) return;
  transactOf(replica)(work).catch((error: unknown) => {
    if (!(error instanceof Refused || error instanceof DatabaseError)) replica.process.onUncaught(error);
  });
}

/** Owners switch all jobs off, so that everything comes to rest. */
export function restJobs(world: World): void {
  const { postgres, kernel } = world;
  const { tables } = postgres;
  const tx = { tables, now: postgres.now(), notify() {} };
  for (const job of [...tables.jobs.jobs.values()]) say(world, tx, job, false);
  kernel.note(() => "--- jobs are switched off");
}
