import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type Docker from "dockerode";
import { type BuildSession, openBuildSession } from "./build-session.ts";
import { ended } from "./containers.ts";
import { contextOwner } from "./context-owner.ts";
import { quickMs, slowMs, withDeadline } from "./deadline.ts";
import { type BuildOptions, type Engine, labels, type Owner } from "./engine.ts";
import { asEngineError, EngineError } from "./errors.ts";
import { followMessages } from "./images.ts";
import { createSilenceWatch, decodeTrace } from "./trace.ts";

const trace = '"moby.buildkit.trace"';
const lostMessage =
  "the node's container engine stopped telling about it, as engines before 23.0 do when steps write more than 1 MiB at once: " +
  "let the steps say less, or ask the administrator for a newer engine";
/** Removing many gigabytes of layers takes its time. */
const pruneMs = 10 * 60_000;

/** The building half of the engine: BuildKit through the engine's own API. */
export function buildCalls(options: {
  clock: Clock;
  random: Random;
  docker: Docker;
  socketPath: string;
  owner: Owner;
  describe: Engine["describe"];
}): Pick<Engine, "buildImage" | "exportFiles" | "pruneBuildCache"> {
  const { clock, random, docker, socketPath, owner, describe } = options;
  return {
    async buildImage(pack, build, onTrace, signal) {
      const context = pack(contextOwner(await describe()));
      const lost = new AbortController();
      const until = AbortSignal.any([signal, lost.signal]);
      const isSilent = createSilenceWatch();
      try {
        const session = await openBuildSession(random, socketPath, build.secrets ?? new Map(), signal);
        try {
          const stream = await startBuild(docker, session, context, build, signal);
          await followMessages("build image", stream, until, (_message, line) => {
            if (!line.includes(trace)) return;
            const { aux }: { aux?: unknown } = JSON.parse(line);
            if (typeof aux !== "string") return;
            onTrace(decodeTrace(Buffer.from(aux, "base64")));
            if (isSilent(aux)) lost.abort();
          });
          signal.throwIfAborted();
          if (lost.signal.aborted) throw new EngineError("failed", lostMessage);
        } finally {
          session.close();
        }
      } finally {
        context.destroy();
      }
    },

    async exportFiles(reference, path, use, signal) {
      const container = await withDeadline(clock, "create container", slowMs, () =>
        docker.createContainer({
          Image: reference,
          // Never started: the engine only wants some command on record.
          Cmd: ["-"],
          Labels: { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId, [labels.kind]: "export" },
          NetworkDisabled: true,
        }),
      );
      try {
        const tar = await withDeadline(clock, "read files", quickMs, () => container.getArchive({ path }));
        const stream = tar as Readable;
        const [result] = await Promise.all([use(stream), ended("read files", stream, signal)]);
        return result;
      } finally {
        await withDeadline(clock, "remove container", slowMs, () => container.remove({ force: true, v: true }));
      }
    },

    async pruneBuildCache(keepBytes) {
      // Both names of the same setting: the second is the one of newer engines.
      const query = { all: "true", "keep-storage": String(keepBytes), "reserved-space": String(keepBytes) };
      const reply = await withDeadline(clock, "prune build cache", pruneMs, () =>
        dial<{ SpaceReclaimed?: unknown }>(docker, {
          path: "/build/prune?",
          method: "POST",
          options: { _query: query, _body: {} },
          statusCodes: { 200: true, 500: "server error" },
        }),
      );
      const { SpaceReclaimed } = reply;
      return typeof SpaceReclaimed === "number" ? SpaceReclaimed : 0;
    },
  };
}

async function startBuild(
  docker: Docker,
  session: BuildSession,
  context: Readable,
  options: BuildOptions,
  signal: AbortSignal,
): Promise<Readable> {
  try {
    return await dial<IncomingMessage>(docker, {
      path: "/build?",
      method: "POST",
      file: context,
      isStream: true,
      abortSignal: signal,
      options: {
        version: "2",
        session: session.id,
        t: options.tag,
        dockerfile: options.dockerfile,
        buildargs: { ...options.buildArgs },
        ...(options.noCache === true && { nocache: "true" }),
        ...(options.hosts !== undefined && {
          extrahosts: Object.entries(options.hosts).map(([name, address]) => `${name}:${address}`),
        }),
      },
      statusCodes: { 200: true, 500: "server error" },
    });
  } catch (cause) {
    signal.throwIfAborted();
    throw asEngineError("build image", cause);
  }
}

/** A call that the client library has no or no fitting method for. */
function dial<T>(docker: Docker, options: Parameters<Docker["modem"]["dial"]>[0]): Promise<T> {
  return new Promise((resolve, reject) => {
    docker.modem.dial(options, (error: unknown, result: unknown) => {
      if (error === null || error === undefined) resolve(result as T);
      else reject(error);
    });
  });
}
