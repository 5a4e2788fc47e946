import type { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import type Docker from "dockerode";
import { ended } from "./containers.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type Engine, localBaseLabel, type RegistryAuth } from "./engine.ts";
import { asEngineError, EngineError } from "./errors.ts";
import { createLineSplitter } from "./lines.ts";

type ImageCalls = Pick<
  Engine,
  "findImage" | "listImageNames" | "pullImage" | "importImage" | "removeImage" | "pushImage"
>;

/** The image half of the engine. Pulls and pushes last as long as their signal allows. */
export function imageCalls(clock: Clock, docker: Docker): ImageCalls {
  return {
    async findImage(reference) {
      try {
        const info = await withDeadline(clock, "inspect image", quickMs, () => docker.getImage(reference).inspect());
        const config = info.Config ?? {};
        return {
          id: info.Id,
          sizeBytes: info.Size,
          repoDigests: info.RepoDigests ?? [],
          repoTags: info.RepoTags ?? [],
          os: info.Os,
          architecture: info.Architecture,
          hasCommand: length(config.Entrypoint) + length(config.Cmd) > 0,
          volumes: Object.keys(config.Volumes ?? {}),
          hasTriggers: length(config.OnBuild) > 0,
          layers: info.RootFS.Layers ?? [],
          isLocalBase: config.Labels?.[localBaseLabel.name] === localBaseLabel.value,
        };
      } catch (cause) {
        if (cause instanceof EngineError && cause.kind === "not-found") return null;
        throw cause;
      }
    },

    async listImageNames(prefix) {
      const images = await withDeadline(clock, "list images", quickMs, () => docker.listImages());
      return images.flatMap(({ RepoDigests }) => (RepoDigests ?? []).filter((name) => name.startsWith(prefix)));
    },

    async pullImage(reference, auth, onProgress, signal) {
      const layers = new Map<string, number>();
      const options = { ...authOptions(auth), abortSignal: signal };
      const stream = await attempt("pull image", () => docker.pull(reference, options));
      await followMessages("pull image", stream as Readable, signal, (message) => {
        const totalBytes = Number(message.progressDetail?.total ?? 0);
        if (message.status !== "Downloading" || message.id === undefined || totalBytes === 0) return;
        layers.set(message.id, totalBytes);
        onProgress({ downloadBytes: [...layers.values()].reduce((sum, size) => sum + size, 0) });
      });
      signal.throwIfAborted();
    },

    async importImage(reference, tar) {
      const at = reference.lastIndexOf(":");
      const abortSignal = clock.abortAfter(slowMs);
      const target = { repo: reference.slice(0, at), tag: reference.slice(at + 1), abortSignal };
      const stream = await attempt("import image", () => docker.importImage(tar, target));
      await followMessages("import image", stream as Readable, abortSignal, () => {});
      abortSignal.throwIfAborted();
    },

    async removeImage(reference) {
      try {
        await withDeadline(clock, "remove image", slowMs, () => docker.getImage(reference).remove());
        return true;
      } catch (cause) {
        if (cause instanceof EngineError && cause.kind === "not-found") return true;
        if (cause instanceof EngineError && cause.kind === "conflict") return false;
        throw cause;
      }
    },

    async pushImage({ repository, tag }, auth, signal) {
      let digest = "";
      const options = { tag, ...authOptions(auth), abortSignal: signal };
      const stream = await attempt("push image", () => docker.getImage(`${repository}:${tag}`).push(options));
      await followMessages("push image", stream as Readable, signal, (message) => {
        if (message.aux?.Digest !== undefined) digest = message.aux.Digest;
      });
      signal.throwIfAborted();
      if (digest === "") throw new EngineError("failed", "push image: the registry confirmed no digest");
      return digest;
    },
  };
}

const length = (value: string | string[] | null | undefined): number => value?.length ?? 0;

/** The engine knows such a token; the types of its client do not. */
function authOptions(auth: RegistryAuth | null): { authconfig?: Docker.AuthConfig } {
  return auth === null ? {} : { authconfig: { registrytoken: auth.token } as unknown as Docker.AuthConfig };
}

async function attempt<T>(what: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (cause) {
    throw asEngineError(what, cause);
  }
}

interface Message {
  status?: string;
  id?: string;
  progressDetail?: { total?: number };
  aux?: { Digest?: string };
}

/** Of a build: what some steps wrote within a moment, each up to what `engineOutput` lets through, in base64. */
const messageBytesMax = 16 * 1024 * 1024;

/** Reads the engine's JSON lines. A line that carries an error fails the call once the stream has ended. */
export async function followMessages(
  what: string,
  stream: Readable,
  signal: AbortSignal,
  onMessage: (message: Message, line: string) => void,
): Promise<void> {
  let failure: string | null = null;
  const split = createLineSplitter((line) => {
    const message = parse(line);
    if (message === null) return;
    if (typeof message.error === "string") failure ??= message.error;
    else onMessage(message, line);
  }, messageBytesMax);
  stream.on("data", split);
  await ended(what, stream, signal);
  split(null);
  if (failure !== null) throw new EngineError("failed", failure);
}

function parse(line: string): (Message & { error?: unknown }) | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
