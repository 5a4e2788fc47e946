import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { type BuildSession, openBuildSession } from "./build-session.ts";
import { ended } from "./containers.ts";
import { contextOwner } from "./context-owner.ts";
import { QUICK_MS, SLOW_MS, withDeadline } from "./deadline.ts";
import { type BuildOptions, type Engine, labels, type Owner } from "./engine.ts";
import { asEngineError } from "./errors.ts";
import { followMessages } from "./images.ts";
import { decodeTrace } from "./trace.ts";

const TRACE = '"moby.buildkit.trace"';
/** Removing many gigabytes of layers takes its time. */
const PRUNE_MS = 10 * 60_000;

/** The building half of the engine: BuildKit through the engine's own API. */
export function buildCalls(
  docker: Docker,
  socketPath: string,
  owner: Owner,
  describe: Engine["describe"],
): Pick<Engine, "buildImage" | "exportFiles" | "pruneBuildCache"> {
  return {
    async buildImage(pack, options, onTrace, signal) {
      const context = pack(contextOwner(await describe()));
      try {
        const session = await openBuildSession(socketPath, options.secrets ?? new Map(), signal);
        try {
          const stream = await startBuild(docker, session, context, options, signal);
          await followMessages("build image", stream, signal, (_message, line) => {
            if (!line.includes(TRACE)) return;
            const { aux }: { aux?: unknown } = JSON.parse(line);
            if (typeof aux === "string") onTrace(decodeTrace(Buffer.from(aux, "base64")));
          });
          signal.throwIfAborted();
        } finally {
          session.close();
        }
      } finally {
        context.destroy();
      }
    },

    async exportFiles(reference, path, use, signal) {
      const container = await withDeadline("create container", SLOW_MS, () =>
        docker.createContainer({
          Image: reference,
          // Never started: the engine only wants some command on record.
          Cmd: ["-"],
          Labels: { [labels.cluster]: owner.clusterId, [labels.node]: owner.nodeId, [labels.kind]: "export" },
          NetworkDisabled: true,
        }),
      );
      try {
        const tar = await withDeadline("read files", QUICK_MS, () => container.getArchive({ path }));
        const stream = tar as Readable;
        const [result] = await Promise.all([use(stream), ended("read files", stream, signal)]);
        return result;
      } finally {
        await withDeadline("remove container", SLOW_MS, () => container.remove({ force: true, v: true }));
      }
    },

    async pruneBuildCache(keepBytes) {
      // Both names of the same setting: the second is the one of newer engines.
      const query = { all: "true", "keep-storage": String(keepBytes), "reserved-space": String(keepBytes) };
      const reply = await withDeadline("prune build cache", PRUNE_MS, () =>
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
