import { Code, ConnectError } from "@connectrpc/connect";
import type { RegistryAccess } from "@svc/proto/node";
import type { Access, IssuedToken, TokenSource } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { backOffMs } from "@svc/runtime/retry";
import { sleep } from "@svc/runtime/sleep";
import { linkBackOff } from "@svc/uplink";
import type { Log } from "./log.ts";
import { TaskFailure } from "./placements/failure.ts";

/** What a node wants to do with one repository, and for which placement or run attempt. */
export interface TokenWish {
  workId: string;
  repository: string;
  push: boolean;
  /** A repository whose layers are to become those of `repository`; empty: none. */
  mountFrom: string;
}

/** The cluster's own registry. A node has no access of its own to it, only what control grants for its work. */
export interface ClusterRegistry {
  /** Where it is; null until control has told it once. */
  find(): RegistryAccess | null;
  /**
   * Asks control for a token. While control is away it waits, as long as `signal` allows.
   *
   * @throws TaskFailure when control refuses, which is not the tenant's fault
   */
  token(wish: TokenWish, signal: AbortSignal): Promise<IssuedToken>;
}

const callTimeoutMs = 10_000;
/** Control has answered: asking the same again gives the same. */
const refusals: readonly Code[] = [
  Code.PermissionDenied,
  Code.InvalidArgument,
  Code.Unauthenticated,
  Code.Unimplemented,
];

export function createClusterRegistry(options: {
  clock: Clock;
  random: Random;
  find(): RegistryAccess | null;
  /** The IssueRegistryToken call. */
  issue(wish: TokenWish, signal: AbortSignal): Promise<IssuedToken>;
  log: Log;
}): ClusterRegistry {
  const { clock, random, find, issue, log } = options;
  return {
    find,
    async token(wish, signal) {
      for (let failures = 1; ; failures += 1) {
        try {
          return await issue(wish, AbortSignal.any([signal, clock.abortAfter(callTimeoutMs)]));
        } catch (cause) {
          signal.throwIfAborted();
          log.warn({ ...wish, reason: String(cause) }, "no token for the registry");
          if (refusals.includes(ConnectError.from(cause).code)) throw refused(cause);
        }
        await sleep(clock, backOffMs(failures, linkBackOff, random.next()), signal);
      }
    },
  };
}

const refused = (cause: unknown): TaskFailure =>
  new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", "The platform did not let this node at the artifact. Try again.", {
    isTransient: true,
    cause,
  });

/** What our own client of the registry asks while it does the work with this id. */
export const tokensFor =
  (registry: ClusterRegistry, workId: string, signal: AbortSignal): TokenSource =>
  async ([access, mounted], within) =>
    registry.token({ workId, ...wishOf(access, mounted) }, within ?? signal);

function wishOf(access: Access | undefined, mounted: Access | undefined): Omit<TokenWish, "workId"> {
  if (access === undefined || access.actions.includes("delete"))
    throw new Error("a node reads and writes repositories, and nothing else");
  return { repository: access.name, push: access.actions.includes("push"), mountFrom: mounted?.name ?? "" };
}
