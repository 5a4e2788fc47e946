import { limits } from "@svc/proto/limits";
import { Observed } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { pause } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { type Engine, labels, type Owner } from "./engine/engine.ts";
import { spareImages, uselessImages } from "./images/keep.ts";
import type { Journal } from "./journal/journal.ts";
import type { PlacementRecord, RunRecord } from "./journal/records.ts";
import type { Log } from "./log.ts";
import type { Tails } from "./logs/tails.ts";
import type { Networks } from "./network/networks.ts";
import { kindOf } from "./placements/kinds/index.ts";

const tidyEveryMs = 60 * 60 * 1000;
/** Whoever wakes it may do so many times in a row. */
const gatherMs = 200;
const mb = 1024 * 1024;
/** So many projects control is asked of at once. */
const askMax = 1_000;

/** Removes what the node keeps in vain: images, networks, build cache. Only what this agent made or fetched is ever considered. */
export interface Tidy {
  /** Looks now instead of in an hour: control said that something is gone, or the agent was away. */
  wake(): void;
  /** Makes room on a full disk, until `isEnough` or nothing is left that could go. */
  reclaim(isEnough: () => Promise<boolean>): Promise<void>;
  /** Until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

export function createTidy(options: {
  clock: Clock;
  engine: Engine;
  owner: Owner;
  journal: Journal;
  networks: Pick<Networks, "release">;
  placements(): PlacementRecord[];
  isNetworkNeeded(projectId: string, channel: string): boolean;
  /** Which of the projects control knows no more. */
  askGone(projectIds: readonly string[]): Promise<readonly string[]>;
  /** host:port of the cluster's registry; null before the first session. */
  registryHost(): string | null;
  /** Last words of containers, by project. */
  tails: Pick<Tails, "projects" | "dropProject">;
  buildCacheMb: number;
  log: Log;
}): Tidy {
  const { clock, engine, owner, journal, log } = options;
  const wake = createWake(clock);
  let gone: ReadonlySet<string> = new Set();

  const imagesInUse = (): Set<string> =>
    new Set([
      ...options.placements().flatMap((record) => imageOf(record, options.registryHost())),
      ...journal.listRuns().flatMap(imageOfRun),
    ]);
  const facts = () => ({ known: journal.listImages(), inUse: imagesInUse(), gone, nowMs: clock.now().getTime() });

  const ownNetworks = async () =>
    (await engine.listNetworks()).filter(
      ({ labels: marks }) => marks[labels.cluster] === owner.clusterId && marks[labels.node] === owner.nodeId,
    );

  /** Without an answer nothing counts as gone. */
  const learnGone = async (): Promise<void> => {
    const owners = journal.listImages().map((image) => image.owner);
    const projects = (await ownNetworks()).map(({ labels: marks }) => marks[labels.project] ?? "");
    const asked = [...new Set([...owners, ...projects, ...(await options.tails.projects())])].filter((id) => id !== "");
    const found: string[] = [];
    for (let at = 0; at < asked.length; at += askMax) {
      found.push(...(await options.askGone(asked.slice(at, at + askMax))));
    }
    gone = new Set(found);
  };

  const removeImage = async (reference: string): Promise<void> => {
    const image = await engine.findImage(reference);
    // An image that was built here has its build's tag besides the digest.
    const repository = reference.split("@")[0] ?? "";
    const inUse = imagesInUse();
    const tags = image?.repoTags.filter((tag) => tag.startsWith(`${repository}:`) && !inUse.has(tag)) ?? [];
    for (const name of [...tags, reference]) if (!(await engine.removeImage(name))) return;
    journal.forgetImage(reference);
    log.info({ reference }, "image removed");
  };

  const tidy = async (): Promise<void> => {
    await learnGone().catch((cause: unknown) => log.debug({ reason: String(cause) }, "control cannot be asked now"));
    for (const reference of uselessImages({ ...facts(), kept: limits.rollbackTargetsKept }))
      await removeImage(reference);
    for (const projectId of await options.tails.projects()) {
      if (gone.has(projectId)) await options.tails.dropProject(projectId);
    }
    const inUse = imagesInUse();
    for (const { reference, owner: projectId } of journal.listImages()) {
      // Another project still uses it: that this one may is over.
      if (gone.has(projectId) && !inUse.has(reference)) journal.forgetImage(reference, projectId);
    }
    // Whoever removes the last container of one may be killed before it goes as well.
    for (const { labels: marks } of await ownNetworks()) {
      const { [labels.project]: projectId = "", [labels.channel]: channel = "" } = marks;
      await options.networks.release(projectId, channel, () => options.isNetworkNeeded(projectId, channel));
    }
  };

  const pruneCache = async (keepBytes: number): Promise<void> => {
    const freedBytes = await engine.pruneBuildCache(keepBytes);
    if (freedBytes > 0) log.info({ freedMb: Math.round(freedBytes / mb) }, "build cache pruned");
  };

  return {
    wake: wake.signal,
    async reclaim(isEnough) {
      await tidy();
      if (await isEnough()) return;
      await pruneCache(0);
      for (const reference of spareImages(facts())) {
        if (await isEnough()) return;
        await removeImage(reference);
      }
    },
    async run(signal) {
      while (!signal.aborted) {
        await wake.wait(tidyEveryMs, signal);
        await pause(clock, gatherMs, signal);
        // This round is for whoever woke it until now; what is said from here on is for the next.
        await wake.wait(0, signal);
        if (signal.aborted) return;
        try {
          await tidy();
          await pruneCache(options.buildCacheMb * mb);
        } catch (cause) {
          log.warn({ err: cause }, "the node could not be tidied up");
        }
      }
    },
  };
}

/** What a placement needs on this node: its image, or the tag that its build makes. */
function imageOf({ placement, status }: PlacementRecord, registryHost: string | null): string[] {
  const { placementId } = placement;
  const { observed } = status;
  if (observed === Observed.REMOVED) return [];
  return kindOf(placement)?.images({ placementId, observed, registryHost: registryHost ?? "" }) ?? [];
}

const imageOfRun = ({ offer }: RunRecord): string[] => (offer.image === undefined ? [] : [offer.image.reference]);
