import { failureMessage } from "@svc/proto";
import type { RegistryAccess } from "@svc/proto/node";
import { createRegistry, type PushedArtifact, RegistryError } from "@svc/registry";
import type { Clock, Timer } from "@svc/runtime/clock";
import { createLimiter } from "@svc/runtime/limiter";
import type { Engine, Owner } from "../engine/engine.ts";
import type { Reserved } from "../engine/pressure.ts";
import { TaskFailure } from "../placements/failure.ts";
import { type ClusterRegistry, tokensFor } from "../registry.ts";
import { authorityOf, browserSettings, edgeOf, serverNameOf } from "./browser-settings.ts";
import { BrowserError, openDevTools } from "./devtools.ts";
import { capturePage, type View } from "./page.ts";
import { openWay } from "./way.ts";
import { layWayDir, openToBrowser, removeWayDir, waySocketOf } from "./way-dir.ts";

export interface CaptureRequest extends View {
  placementId: string;
  labels: Readonly<Record<string, string>>;
  image: string;
  /** address:port of the one edge that is asked. */
  edge: string;
  targetRepository: string;
  timeoutSeconds: number;
  limits: { memoryMb: number; cpuMillicores: number; pidsLimit: number };
  reserved: Reserved;
  /** A place was free and the work begins. */
  onStart(): void;
}

export type MadeCapture = Pick<PushedArtifact, "digest" | "sizeBytes">;

/** Takes pictures of sites, each with a browser of its own that has no network. */
export interface Captures {
  /**
   * Shows the page, and pushes the picture. Safe to repeat: the container is named after the placement, and one that is
   * there is of a try that broke off.
   *
   * @throws TaskFailure with a sentence for the operator
   */
  take(request: CaptureRequest, signal: AbortSignal): Promise<MadeCapture>;
  /** Ends and removes what a capture that came to no result may have left. */
  discard(placementId: string): Promise<void>;
}

export interface CapturesDeps {
  clock: Clock;
  engine: Engine;
  owner: Owner;
  registry: ClusterRegistry;
}

/** A browser takes a processor for itself. Control places no more either. */
const atOnce = 1;
/** What the browser has for its own start, apart from the page. */
const startMs = 30_000;
const pushMs = 60_000;
const nameOf = (placementId: string): string => `svc-c-${placementId}`;

export function createCaptures(deps: CapturesDeps): Captures {
  const { engine, owner, registry } = deps;
  const inTurn = createLimiter({ total: atOnce });
  const discard = async (placementId: string): Promise<void> => {
    await engine.removeContainer(nameOf(placementId));
    await removeWayDir(owner, placementId);
  };

  const start = async (request: CaptureRequest, signal: AbortSignal): Promise<MadeCapture> => {
    request.onStart();
    const access = registry.find();
    if (access === null) throw registryAway(null);
    await discard(request.placementId);
    let png: Buffer;
    try {
      png = await show(deps, request, signal);
    } finally {
      await discard(request.placementId);
    }
    return push(deps, request, { png, access, signal });
  };

  return { take: (request, signal) => inTurn(() => start(request, signal), { signal }), discard };
}

/** The picture, taken by a browser that may still be there afterwards. */
async function show({ clock, engine, owner }: CapturesDeps, request: CaptureRequest, signal: AbortSignal) {
  const { placementId, limits } = request;
  const [authority, edge] = [authorityOf(request.url), edgeOf(request.edge)];
  if (authority === null || edge === null) throw new TaskFailure("NODE_TASK_FAILED", "The assignment names no site.");
  const description = await engine.describe();
  await layWayDir(owner, placementId, description);
  const socket = waySocketOf(owner, placementId);
  await using _way = await openWay(socket, edge, serverNameOf(request.url));
  await openToBrowser(socket, description);
  const late = new AbortController();
  const expect = (withinMs: number): Timer => clock.after(withinMs, () => late.abort());
  let timer = expect(startMs);
  const within = AbortSignal.any([signal, late.signal]);
  const browser = await engine.startBrowser({
    ...{ name: nameOf(placementId), placementId, image: request.image, settings: browserSettings(authority) },
    labels: request.labels,
    ...limits,
    reserved: request.reserved,
  });
  // Whoever waits for an answer hears of its end.
  const end = (): void => void engine.killContainer(nameOf(placementId), "SIGKILL").catch(() => {});
  within.addEventListener("abort", end, { once: true });
  if (within.aborted) end();
  try {
    const onBegin = (): void => {
      timer[Symbol.dispose]();
      timer = expect(request.timeoutSeconds * 1000);
    };
    return await capturePage({ clock, browser: openDevTools(browser), onBegin, signal: within }, request);
  } catch (cause) {
    signal.throwIfAborted();
    if (late.signal.aborted) throw new TaskFailure("CAPTURE_TIMEOUT", failureMessage("CAPTURE_TIMEOUT"), { cause });
    if (!(cause instanceof BrowserError)) throw cause;
    const { oomKilled } = await browser.end();
    const why = oomKilled ? ` It took more than ${limits.memoryMb} MB of memory.` : "";
    throw new TaskFailure("CAPTURE_FAILED", `${failureMessage("CAPTURE_FAILED")}${why}`, { cause });
  } finally {
    timer[Symbol.dispose]();
    within.removeEventListener("abort", end);
  }
}

async function push(
  { clock, registry }: CapturesDeps,
  { placementId, targetRepository }: CaptureRequest,
  { png, access, signal }: { png: Buffer; access: RegistryAccess; signal: AbortSignal },
): Promise<MadeCapture> {
  await using client = createRegistry(clock, {
    url: `${access.insecure ? "http" : "https"}://${access.host}`,
    tokens: tokensFor(registry, placementId, signal),
    transferTimeoutMs: pushMs,
  });
  try {
    const { digest, sizeBytes } = await client.pushArtifact(targetRepository, {
      ...{ kind: "screenshot", stream: png, tag: placementId, signal },
    });
    return { digest, sizeBytes };
  } catch (cause) {
    signal.throwIfAborted();
    throw cause instanceof RegistryError ? registryAway(cause) : cause;
  }
}

const registryAway = (cause: unknown): TaskFailure =>
  new TaskFailure("ARTIFACT_REGISTRY_UNAVAILABLE", failureMessage("ARTIFACT_REGISTRY_UNAVAILABLE"), {
    isTransient: true,
    cause,
  });
