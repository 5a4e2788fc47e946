// @pure
import type { DeploymentStatus } from "@svc/proto";

/** A manifest in the cluster's registry. */
export interface Content {
  repository: string;
  digest: string;
}

/** Something that was pushed, or is being pushed. */
export interface StoredArtifact {
  id: string;
  repository: string;
  /** Null until it is known. */
  digest: string | null;
  createdAt: Date;
  /** Null while it is being pushed, as far as anybody knows. */
  endedAt: Date | null;
  /** Whether the build that pushes it may still be at work; null for what no build pushes. */
  building: boolean | null;
}

/** A deployment as far as it keeps artifacts. */
export interface Referrer {
  id: string;
  status: DeploymentStatus;
  channel: "production" | "preview" | "dev";
  number: number;
  /** Its source and its artifact, as far as they are in the cluster's registry and were not removed. */
  contents: readonly Content[];
  /** Whether its artifact is known and was not removed: what a rollback needs. */
  canBeRestored: boolean;
  /** A channel points at it. */
  served: boolean;
  /** A task of it is not over on its node, or a run of a job is to run in it. */
  hasOpenTask: boolean;
}

export interface ArtifactFacts {
  now: Date;
  /** The project is deleted: nothing is kept. */
  projectGone: boolean;
  /** At least every deployment that keeps something; more do no harm. */
  deployments: readonly Referrer[];
  artifacts: readonly StoredArtifact[];
  /** Of backups, which go when somebody deletes these, and the newest pictures of deployments. */
  files: readonly Content[];
}

export interface ArtifactBounds {
  /** What was pushed so lately may be waiting for the row that will refer to it. */
  graceMs: number;
  /** Longest time that an upload may take; after that whoever pushed it is dead. */
  pushMs: number;
  /** Superseded deployments per channel that one can go back to. */
  rollbackTargets: number;
}

export interface ArtifactDecision {
  /** To be deleted in the registry. */
  remove: Content[];
  /** Pushes that have ended without anybody hearing of it: the registry knows under their tag. */
  lookUp: StoredArtifact[];
}

const keepingStatuses: ReadonlySet<DeploymentStatus> = new Set([
  "queued",
  "building",
  "deploying",
  "running",
  "stopped",
]);
const channelsWithRollback: ReadonlySet<Referrer["channel"]> = new Set(["production", "dev"]);

export const contentKey = ({ repository, digest }: Content) => `${repository}@${digest}`;

/**
 * What of a project may go. A deployment keeps all that it was made of and all that it runs, as one: while it is
 * not over, while a channel points at it, while a node works for it, and while it is one of the newest that
 * a channel can go back to.
 *
 * Content is what is deleted, and equal content is stored once: so it stays while one deployment, backup or screenshot refers to it, or
 * one of its pushes is recent, and a repository is left alone while something is pushed to it, since that may turn
 * out to be the very content that is about to be deleted.
 */
export function judgeArtifacts(facts: ArtifactFacts, bounds: ArtifactBounds): ArtifactDecision {
  const { now, projectGone, artifacts } = facts;
  const ageMs = (artifact: StoredArtifact) => now.getTime() - (artifact.endedAt ?? artifact.createdAt).getTime();
  const isUnderWay = (artifact: StoredArtifact) =>
    artifact.digest === null && (artifact.building ?? (artifact.endedAt === null && ageMs(artifact) < bounds.pushMs));

  const named = [...keptContents(facts.deployments, bounds), ...facts.files];
  const kept = new Set(projectGone ? [] : named.map(contentKey));
  const busy = new Set(projectGone ? [] : artifacts.filter(isUnderWay).map(({ repository }) => repository));
  const contents = new Map<string, Content>();
  for (const artifact of artifacts) {
    const { repository, digest } = artifact;
    if (digest === null) continue;
    const content = { repository, digest };
    contents.set(contentKey(content), content);
    if (!projectGone && ageMs(artifact) < bounds.graceMs) kept.add(contentKey(content));
  }
  return {
    remove: [...contents]
      .filter(([key, { repository }]) => !kept.has(key) && !busy.has(repository))
      .map(([, each]) => each),
    lookUp: artifacts.filter((artifact) => artifact.digest === null && !isUnderWay(artifact)),
  };
}

/** What the deployments of a project keep; content that several of them keep comes several times. */
export const keptContents = (
  deployments: readonly Referrer[],
  bounds: Pick<ArtifactBounds, "rollbackTargets">,
): Content[] => keepers(deployments, bounds).flatMap(({ contents }) => contents);

/** The deployments whose artifacts stay. */
function keepers(
  deployments: readonly Referrer[],
  { rollbackTargets }: Pick<ArtifactBounds, "rollbackTargets">,
): Referrer[] {
  const left = new Map<Referrer["channel"], number>();
  const targets = new Set<Referrer>();
  for (const deployment of [...deployments].sort((a, b) => b.number - a.number)) {
    const { status, channel, canBeRestored } = deployment;
    if (status !== "superseded" || !canBeRestored || !channelsWithRollback.has(channel)) continue;
    const room = left.get(channel) ?? rollbackTargets;
    if (room > 0) targets.add(deployment);
    left.set(channel, room - 1);
  }
  return deployments.filter(
    (each) => keepingStatuses.has(each.status) || each.served || each.hasOpenTask || targets.has(each),
  );
}
