import { isIP } from "node:net";
import { sql } from "kysely";
import type { Fleet } from "../../../fleet/cluster/fleet.ts";
import { findOneShot } from "../../../fleet/tasks/one-shot.ts";
import type { Config } from "../../../settings/settings.ts";
import type { Db } from "../../../stores/db/pool.ts";
import type { Deployment, Screenshot } from "../../../stores/db/tables.ts";
import type { ScreenshotFacts } from "./steps.ts";
import { isLive, perOwnerMax } from "./store.ts";

export interface ScreenshotFactsDeps {
  db: Db;
  fleet: Pick<Fleet, "observation" | "nodeLostAt">;
  config: Pick<Config, "captureImage" | "content">;
}

type Pictured = Pick<Deployment, "channel" | "pr_number">;

/** Everything that decides a screenshot's next step, read afresh; null when nobody has asked for it, or it is no more. */
export async function readScreenshotFacts(
  { db, fleet, config }: ScreenshotFactsDeps,
  deploymentId: string,
): Promise<{ screenshot: Screenshot; deployment: Pictured; facts: ScreenshotFacts } | null> {
  const row = await db
    .selectFrom("screenshot")
    .innerJoin("deployment", "deployment.id", "screenshot.deployment_id")
    .innerJoin("project", "project.id", "screenshot.project_id")
    .selectAll("screenshot")
    .select(["deployment.channel", "deployment.pr_number"])
    .select((where) => isLive(where as never).as("live"))
    .select(sql<number>`extract(epoch from clock_timestamp() - screenshot.asked_at)::float8 * 1000`.as("age_ms"))
    .where("screenshot.deployment_id", "=", deploymentId)
    .executeTakeFirst();
  if (row === undefined) return null;
  const { channel, pr_number, live, age_ms, ...screenshot } = row;
  const deployment = { channel, pr_number };
  const [task, crowded, host, address] = await Promise.all([
    findOneShot(db, fleet, screenshot.id),
    isCrowded(db, screenshot),
    findHost(db, screenshot.project_id, deployment),
    findEdge(db, fleet),
  ]);
  const { captureImage: image, content } = config;
  const isShown = image !== "" && host !== null && address !== null;
  return {
    screenshot,
    deployment,
    facts: {
      ...{ pending: screenshot.pending, failures: screenshot.failures, ageMs: age_ms },
      live: Boolean(live),
      crowded,
      site: isShown ? { image, url: urlOf(host, content), edge: edgeAt(address, content) } : null,
      task: task && { ...task.facts, file: task.seen?.capture ?? null },
    },
  };
}

type Content = Config["content"];

const urlOf = (host: string, { scheme, port }: Content): string => `${scheme}://${host}${port}/`;

/** Edges listen where the content's address says that they do. */
const edgeAt = (address: string, { scheme, port }: Content): string =>
  `${isIP(address) === 6 ? `[${address}]` : address}${port || (scheme === "https" ? ":443" : ":80")}`;

/** Whether the owner's other sites take all the room that one owner has. Two that look at once may both begin: it is no quota. */
async function isCrowded(db: Db, { id, project_id: projectId }: Screenshot): Promise<boolean> {
  const { count } = await db
    .selectFrom("screenshot")
    .innerJoin("project", "project.id", "screenshot.project_id")
    .innerJoin("task", "task.owner_id", "screenshot.id")
    .select((of) => of.fn.count<number>("screenshot.id").distinct().as("count"))
    .where("project.owner_id", "=", (of) => of.selectFrom("project").select("owner_id").where("id", "=", projectId))
    .where("screenshot.pending", "=", true)
    .where("screenshot.id", "!=", id)
    .where("task.desired", "=", "running")
    .executeTakeFirstOrThrow();
  return count >= perOwnerMax;
}

/** The platform's own name of the channel, which no tenant's DNS has a say in. */
async function findHost(db: Db, projectId: string, { channel, pr_number }: Pictured): Promise<string | null> {
  const row = await db
    .selectFrom("site_host")
    .select("host")
    .where("project_id", "=", projectId)
    .where("channel", "=", channel)
    .where("pr_number", "is not distinct from", pr_number)
    .where("domain_id", "is", null)
    .where("redirect_to", "is", null)
    .orderBy("host")
    .limit(1)
    .executeTakeFirst();
  return row?.host ?? null;
}

/** The address of an edge that is here, where it says that it is; null: none is. */
async function findEdge(db: Db, fleet: Pick<Fleet, "nodeLostAt">): Promise<string | null> {
  const edges = await db
    .selectFrom("node")
    .select(["id", "address"])
    .where("role", "=", "edge")
    .where("lifecycle", "=", "active")
    .orderBy("created_at")
    .execute();
  const known = edges.filter(({ address }) => address !== null && isIP(address) !== 0);
  return (known.find(({ id }) => fleet.nodeLostAt(id) === null) ?? known[0])?.address ?? null;
}
