import { limits } from "@svc/proto/limits";
import type { Image as ImageSpec, RegistryAccess } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Engine, Image } from "../engine/engine.ts";
import { EngineError, isEngineTrouble } from "../engine/errors.ts";
import type { Journal } from "../journal/journal.ts";
import { TaskFailure } from "../placements/failure.ts";
import type { ClusterRegistry, TokenWish } from "../registry.ts";
import type { DiskGuard } from "../stats/disk.ts";
import { classifyPull, parseReference } from "./classify.ts";

const pullsAtOnce = 3;
/** Each is filled with what the image has there before anybody can look how much that is; few real images have two. */
const volumesMax = 8;
const pullTimeoutMs = limits.pullSecondsMax * 1000;
const architectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64", arm: "arm", ia32: "386" };

export interface ImageNeeds {
  /** Whether the image has to bring a command of its own. */
  command: boolean;
  /** Whether a name without a digest is good, too: of an image that an operator put on the node, and sees to. */
  mayBeLocal: boolean;
  projectId: string;
  /** The placement or run attempt that needs it. */
  workId: string;
  /** Called when it has to be fetched. */
  onPull(): void;
}

type PullWish = Pick<TokenWish, "workId" | "repository">;

/** Makes sure that images are on this node and are what was asked for. */
export interface Images {
  /**
   * Pulls the image unless the exact digest is present, then checks digest, platform, size and command. Images come
   * from the cluster's registry only, into which control has copied what users name.
   *
   * @throws TaskFailure with the code that a person can act on
   */
  ensure(image: ImageSpec, needs: ImageNeeds, signal: AbortSignal): Promise<void>;
}

export function createImages(options: {
  clock: Clock;
  engine: Engine;
  journal: Journal;
  registry: ClusterRegistry;
  checkDisk: DiskGuard;
}): Images {
  const { clock, engine, journal, registry } = options;
  const inTurn = createLimiter({ total: pullsAtOnce });

  const pull = async (spec: ImageSpec, wish: PullWish, signal: AbortSignal): Promise<void> => {
    const timeout = clock.abortAfter(pullTimeoutMs);
    const tooLarge = new AbortController();
    const maxBytes = spec.maxSizeMb * 1024 * 1024;
    try {
      const token = await registry.token({ ...wish, push: false, mountFrom: "" }, AbortSignal.any([signal, timeout]));
      await engine.pullImage(
        spec.reference,
        token,
        ({ downloadBytes }) => {
          // Layers travel compressed, so what is too large now would only grow.
          if (maxBytes > 0 && downloadBytes > maxBytes) tooLarge.abort();
        },
        AbortSignal.any([signal, timeout, tooLarge.signal]),
      );
    } catch (cause) {
      signal.throwIfAborted();
      if (tooLarge.signal.aborted) throw imageTooLarge(spec.maxSizeMb);
      if (timeout.aborted)
        throw new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", "Pulling the artifact took longer than 15 minutes.", {
          // Whoever waited for a token all the time is not to be blamed, and control will be back.
          isTransient: true,
        });
      if (isEngineTrouble(cause) || cause instanceof TaskFailure) throw cause;
      const failure = classifyPull(cause instanceof Error ? cause.message : String(cause));
      throw new TaskFailure(failure.code, failure.message, { isTransient: failure.isTransient, cause });
    }
  };

  return {
    async ensure(spec, needs, signal) {
      if (needs.mayBeLocal && !spec.reference.includes("@")) return requireLocal(engine, spec.reference);
      const { repository } = requireOwn(spec.reference, registry.find());
      const present = await engine.findImage(spec.reference);
      if (present === null) {
        needs.onPull();
        await options.checkDisk();
        await inTurn(() => pull(spec, { workId: needs.workId, repository }, signal), { signal });
      }
      verify(present ?? (await engine.findImage(spec.reference)), spec, needs.command);
      journal.noteImage(spec.reference, needs.projectId, clock.now().getTime());
    },
  };
}

async function requireLocal(engine: Engine, reference: string): Promise<void> {
  if ((await engine.findImage(reference)) !== null) return;
  throw new TaskFailure("NODE_TASK_FAILED", `The image ${reference} is not on this node.`, { isTransient: true });
}

/** The engine would dial wherever a reference says, with its own idea of who may be dialled. */
function requireOwn(text: string, registry: RegistryAccess | null): { repository: string } {
  const reference = parseReference(text);
  if (reference === null) throw new TaskFailure("OCI_INSPECT_FAILED", "The image is not pinned by digest.");
  if (registry === null) {
    const message = "The artifact registry is not known yet.";
    throw new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", message, { isTransient: true });
  }
  if (reference.host !== registry.host)
    throw new TaskFailure("ARTIFACT_NOT_FOUND", "The image is not in the cluster's registry. Deploy it again.");
  return reference;
}

function verify(image: Image | null, spec: ImageSpec, needsCommand: boolean): void {
  if (image === null || !image.repoDigests.includes(spec.reference)) {
    throw new TaskFailure(
      "ARTIFACT_DIGEST_MISMATCH",
      "The registry delivered something else than the digest that was asked for.",
    );
  }
  if (image.os !== "linux" || image.architecture !== architectures[process.arch]) {
    throw new TaskFailure(
      "OCI_PLATFORM_UNSUPPORTED",
      `The image is for ${image.os}/${image.architecture}, this node runs linux/${architectures[process.arch]}.`,
    );
  }
  if (needsCommand && !image.hasCommand) {
    throw new TaskFailure("OCI_ENTRYPOINT_MISSING", "The image has neither an entrypoint nor a command.");
  }
  if (image.volumes.length > volumesMax) {
    throw new TaskFailure(
      "START_FAILED",
      `The image has ${image.volumes.length} volumes; at most ${volumesMax} are allowed. Take VOLUME out of its Dockerfile: what a container writes goes with it anyway.`,
    );
  }
  if (spec.maxSizeMb > 0 && image.sizeBytes > spec.maxSizeMb * 1024 * 1024) throw imageTooLarge(spec.maxSizeMb);
}

const imageTooLarge = (maxSizeMb: number): TaskFailure =>
  new TaskFailure("IMAGE_TOO_LARGE", `The image is larger than the ${maxSizeMb} MB that the plan allows.`);

/** Whether a failure of the engine's says that the image went away under us. */
export const isMissingImage = (cause: unknown): boolean =>
  cause instanceof EngineError && cause.kind === "not-found" && /no such image/i.test(cause.message);
