import type { Channel, DeploymentStatus, ProjectType } from "@svc/proto";
import { type SelectQueryBuilder, sql } from "kysely";
import type { CrashingValue } from "../../fleet/cluster/keys.ts";
import type { Caller } from "../../http/caller.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Database, Deployment } from "../../stores/db/tables.ts";
import { Refused } from "../../stores/refused.ts";
import { worstCrashing } from "../crashes/store.ts";
import { ownDeployments } from "../projects/store.ts";
import { warningPhase } from "./store.ts";

/** A deployment with what its readers are told besides its own row. */
export interface ListedDeployment extends Deployment {
  type: ProjectType;
  /** Its project is suspended, and no container of it runs. */
  suspended: boolean;
  /** What its readers are warned of. */
  warnings: string[];
  /** When its timeline last changed; null when it has no line. */
  lastTransitionAt: Date | null;
  /** A container of it waits for a node. */
  awaitsNode: boolean;
  /** The newest attempt at its release command, times as ISO 8601; null before the first. */
  release: { nodeId: string; startedAt: string | null; finishedAt: string | null; exitCode: number | null } | null;
  /** No node takes its build. */
  buildRefused: boolean;
  /** Its containers that are to run and that no other is to take the place of. */
  containers: { nodeId: string | null; refused: Record<string, number> | null }[];
  /** A container of it ended by itself (`crashed`), or all of them did for good (`ended`); null when all is well. */
  trouble: "crashed" | "ended" | null;
  /** When its newest picture was taken; null: there is none. */
  screenshotCapturedAt: Date | null;
  /** Its container that falls over most often; null when none does. */
  crashing: CrashingValue | null;
}

type Joined = SelectQueryBuilder<Database, "deployment" | "project", object>;

const withFacts = (query: Joined) =>
  query
    .selectAll("deployment")
    .select("project.type")
    .select((deployment) => [
      deployment
        .selectFrom("deployment_event")
        .select((event) => event.fn.max("deployment_event.at").as("at"))
        .whereRef("deployment_event.deployment_id", "=", "deployment.id")
        .as("lastTransitionAt"),
      deployment
        .selectFrom("screenshot")
        .select("screenshot.captured_at")
        .whereRef("screenshot.deployment_id", "=", "deployment.id")
        .as("screenshotCapturedAt"),
      sql<string[]>`(
        select coalesce(jsonb_agg(detail order by id), '[]')
        from deployment_event where deployment_id = deployment.id and phase = ${warningPhase})`.as("warnings"),
      sql<boolean>`exists (select from task where task.owner_id = deployment.id and task.kind = 'serve'
        and task.desired = 'running' and task.node_id is null)`.as("awaitsNode"),
      sql<boolean>`exists (select from task where task.owner_id = deployment.id and task.kind = 'build'
        and task.desired = 'running' and task.node_id is null and task.refused is not null)`.as("buildRefused"),
      sql<ListedDeployment["containers"]>`(
        select coalesce(jsonb_agg(jsonb_build_object('nodeId', node_id, 'refused', refused)), '[]')
        from task where task.owner_id = deployment.id and task.kind = 'serve' and task.desired = 'running'
          and task.retiring_at is null)`.as("containers"),
      sql<ListedDeployment["release"]>`(
        select jsonb_build_object('nodeId', node_id, 'startedAt', started_at, 'finishedAt', finished_at, 'exitCode', exit_code)
        from run where run.owner_id = deployment.id and run.kind = 'release' order by number desc limit 1)`.as(
        "release",
      ),
      sql<boolean>`project.suspended_at is not null`.as("suspended"),
      sql<ListedDeployment["trouble"]>`(
        select case when bool_and(trouble is not distinct from 'ended') then 'ended'
          when bool_or(trouble is not null) then 'crashed' end
        from task where task.owner_id = deployment.id and task.kind = 'serve' and task.desired = 'running'
          and task.retiring_at is null)`.as("trouble"),
      worstCrashing(sql`task.owner_id = deployment.id`).as("crashing"),
    ]);

export interface ListFilter {
  channel?: Channel;
  status?: DeploymentStatus;
  /** Only those with a lower number: where the page before this one ended. */
  before?: number;
}

/** Deployments of a project that `caller` may see, newest first; at most `count`. */
export const listDeployments = (
  db: Db,
  caller: Caller,
  projectId: string,
  { channel, status, before }: ListFilter,
  count: number,
): Promise<ListedDeployment[]> =>
  withFacts(
    ownDeployments(db, caller)
      .where("deployment.project_id", "=", projectId)
      .$if(channel !== undefined, (query) => query.where("deployment.channel", "=", channel ?? "production"))
      .$if(status !== undefined, (query) => query.where("deployment.status", "=", status ?? "queued"))
      .$if(before !== undefined, (query) => query.where("deployment.number", "<", before ?? 0)),
  )
    .orderBy("deployment.number", "desc")
    .limit(count)
    .execute();

/** Its row alone, for whoever acts on it and tells nothing of it; as `getOwnDeployment`. */
export async function getOwnRow(db: Db, caller: Caller, id: string): Promise<Deployment> {
  const row = await ownDeployments(db, caller)
    .where("deployment.id", "=", id)
    .selectAll("deployment")
    .executeTakeFirst();
  if (row === undefined) throw new Refused("NOT_FOUND");
  return row;
}

/** The deployment, if `caller` may see it. Throws NOT_FOUND for every other one alike. */
export async function getOwnDeployment(db: Db, caller: Caller, id: string): Promise<ListedDeployment> {
  const deployment = await withFacts(ownDeployments(db, caller).where("deployment.id", "=", id)).executeTakeFirst();
  if (deployment === undefined) throw new Refused("NOT_FOUND");
  return deployment;
}
