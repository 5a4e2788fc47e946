import type { Clock } from "@svc/runtime/clock";
import { createWake } from "@svc/runtime/wake";
import { sql } from "kysely";
import type { Fleet } from "../../fleet/cluster/fleet.ts";
import { routeTopic } from "../../fleet/cluster/topics.ts";
import { edgeProgress } from "../../fleet/routes/progress.ts";
import { targetOf } from "../../fleet/routes/table.ts";
import type { Log } from "../../log.ts";
import type { Config } from "../../settings/settings.ts";
import { notify } from "../../stores/db/notify.ts";
import type { Db } from "../../stores/db/pool.ts";
import type { Project } from "../../stores/db/tables.ts";
import { recheckAfterMs } from "../../stores/work/recheck.ts";
import type { WorkHandler } from "../../stores/work/worker.ts";
import { sameAddress } from "../hosts/address.ts";
import { claimHostOf, listSiteHosts } from "../hosts/hosts.ts";
import { hostUrl } from "../projects/view.ts";
import { lockLiveDeployments } from "./deployments.ts";
import { nextRenameStep, type RenameFacts, type RenameStep } from "./steps.ts";

export interface RenameDeps {
  clock: Clock;
  db: Db;
  fleet: Fleet;
  content: Config["content"];
  log: Log;
}

/** How long the old hosts redirect before anybody may have their names. */
const redirectHours = 24;

type Effects = {
  [K in Exclude<RenameStep["do"], "wait" | "end">]: (
    projectId: string,
    step: Extract<RenameStep, { do: K }>,
  ) => Promise<void>;
};

/**
 * Work of kind `rename`: brings a project from its slug to the next one. Each round reads everything and does one
 * step, which is a transaction that checks under the project's lock what it rests on; so a round that is repeated, or
 * is done by two workers, does no harm. It holds its work item for as long as healthy edges take; while one is away it
 * only looks now and then, and leaves the room to others.
 */
export function renameWorker(deps: RenameDeps): WorkHandler {
  const { clock, db, fleet } = deps;
  const effects = renameEffects(deps);
  return async (item, signal) => {
    const { projectId } = item.payload as { projectId: string };
    const wake = createWake(clock);
    using _routes = fleet.onChange("routes", wake.signal);
    using _edges = fleet.onChange("edges", wake.signal);
    while (!signal.aborted) {
      const facts = await readRenameFacts(db, fleet, projectId, clock.now());
      const step = nextRenameStep(facts);
      switch (step.do) {
        case "end":
          return { state: "done" };
        case "wait":
          if (step.isLong) return { retryAfterMs: recheckAfterMs(waitedMs(facts, item.ageMs)), refund: true };
          await wake.wait(1_000, signal);
          break;
        default: {
          const effect = effects[step.do] as (projectId: string, step: RenameStep) => Promise<void>;
          await effect(projectId, step);
        }
      }
    }
    return { retryAfterMs: 0, refund: true };
  };
}

/** Since the slug was asked for: the item may have waited for the redirects of an earlier one. */
const waitedMs = ({ now, since }: RenameFacts, itemAgeMs: number) =>
  since === null ? itemAgeMs : now.getTime() - since.getTime();

const nothing: Omit<RenameFacts, "now"> = {
  projectGone: true,
  slug: "",
  nextSlug: null,
  since: null,
  hosts: [],
  edgesInRotation: 0,
  edgesCurrent: 0,
};

async function readRenameFacts(db: Db, fleet: Fleet, projectId: string, now: Date): Promise<RenameFacts> {
  const project = await db.selectFrom("project").selectAll().where("id", "=", projectId).executeTakeFirst();
  if (project === undefined || project.deleting_at !== null) return { now, ...nothing };
  const slug = project.next_slug ?? project.slug;
  const hosts = (await listSiteHosts(db, project)).map((host) => {
    const entry = fleet.route(host.host);
    return { ...host, published: entry && targetOf(entry) };
  });
  const awaited = hosts.filter((host) => host.slug === slug).map(({ host }) => host);
  const edges = await edgeProgress(db, fleet, awaited);
  return {
    now,
    projectGone: false,
    slug: project.slug,
    nextSlug: project.next_slug,
    since: project.next_slug_at,
    hosts,
    edgesInRotation: edges.inRotation,
    edgesCurrent: edges.current,
  };
}

function renameEffects({ db, content, log }: RenameDeps): Effects {
  /**
   * Runs `act` with the project's row held, if the project is still being given `slug`, or has it, as `step` found.
   * Whoever holds one of its deployments may add what refers to the project meanwhile.
   */
  const locked = (
    projectId: string,
    isAsFound: (project: Project) => boolean,
    act: (tx: Db, project: Project) => Promise<void>,
  ): Promise<void> =>
    db.transaction().execute(async (tx) => {
      const project = await tx
        .selectFrom("project")
        .selectAll()
        .where("id", "=", projectId)
        .where("deleting_at", "is", null)
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (project !== undefined && isAsFound(project)) await act(tx, project);
    });

  return {
    claim: (projectId, { slug, addresses }) =>
      locked(
        projectId,
        (project) => (project.next_slug ?? project.slug) === slug,
        async (tx, project) => {
          const hosts = await listSiteHosts(tx, project);
          for (const address of addresses) {
            // A preview that was given up in between needs no name any more.
            if (!hosts.some((host) => sameAddress(host, address))) continue;
            await claimHostOf(tx, project, slug, address, content.domain);
          }
          await notify(tx, routeTopic, projectId);
        },
      ),

    flip: (projectId, { slug, why }) =>
      locked(
        projectId,
        (project) => project.next_slug === slug,
        async (tx, project) => {
          const serving = (await listSiteHosts(tx, project)).filter(({ redirectTo }) => redirectTo === null);
          const own = serving.filter((host) => host.slug === slug);
          // A channel whose first deployment came in between has to get its new host first.
          if (!serving.every((host) => own.some((each) => sameAddress(each, host)))) return;
          await settleHosts(tx, project);
          // Before the slug: as it is unique, its change waits for everybody who refers to the project.
          await lockLiveDeployments(tx, projectId);
          await tx
            .updateTable("project")
            .set({ slug, next_slug: null, next_slug_at: null, updated_at: sql<Date>`now()` })
            .where("id", "=", projectId)
            .execute();
          for (const { host, channel, prNumber } of own) {
            await tx
              .updateTable("deployment")
              .set({ url: hostUrl(host, content) })
              .where("project_id", "=", projectId)
              .where("channel", "=", channel)
              .where("pr_number", "is not distinct from", prNumber)
              .execute();
          }
          log.info({ projectId, from: project.slug, to: slug, why }, "project renamed");
        },
      ),

    redirect: (projectId, { slug, hosts }) =>
      locked(
        projectId,
        (project) => project.slug === slug && project.next_slug === null,
        async (tx, project) => {
          const serving = new Set(
            (await listSiteHosts(tx, project)).filter(({ redirectTo }) => redirectTo === null).map(({ host }) => host),
          );
          const still = hosts.filter(({ host, to }) => serving.has(host) && serving.has(to));
          for (const { host, to } of still) await redirectHost(tx, host, to);
          await notify(tx, routeTopic, projectId);
          log.info({ projectId, slug, hosts: still.length }, "old hosts redirect");
        },
      ),
  };
}

/**
 * Nothing of the next slug can be given up any more, and names without a slug of their own are those of the project's,
 * which is about to be another.
 */
const settleHosts = (tx: Db, { id, slug }: Project) =>
  tx
    .updateTable("site_host")
    .set({ slug: sql<string>`coalesce(slug, ${slug})`, for_next_slug: false, redirected_until: null })
    .where("project_id", "=", id)
    .where("domain_id", "is", null)
    .execute();

/** Sends visitors of `host` to `to`, and at once those whom an earlier rename sends to `host`. */
async function redirectHost(tx: Db, host: string, to: string): Promise<void> {
  await tx.updateTable("site_host").set({ redirect_to: to }).where("redirect_to", "=", host).execute();
  await tx
    .updateTable("site_host")
    .set({ redirect_to: to, redirect_until: sql<Date>`now() + ${redirectHours} * interval '1 hour'` })
    .where("host", "=", host)
    .execute();
}
