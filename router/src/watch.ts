import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";
import {
  createTransport,
  FencedError,
  type Identity,
  type LinkTransport,
  renewLoop,
  runSession,
  type Send,
} from "@svc/link";
import { EdgeService, type SessionRequest, SessionRequestSchema, type SessionResponse } from "@svc/proto/edge";
import type { RegistryAccess } from "@svc/proto/node";
import type { AppliedState, Applier } from "./apply.ts";
import type { Log } from "./log.ts";

/** Follows control. While control is away, or refuses us, everything goes on as it was. */
export interface Watch {
  /** Tells control what is served, if there is a session; the next one begins with it anyway. */
  report(state: AppliedState): void;
  /** Runs until `signal` aborts, or this identity is fenced: then it returns, and nothing changes any more. */
  follow(identity: Identity, signal: AbortSignal): Promise<void>;
}

export interface WatchDeps {
  /** Where the identity is kept. */
  identityDir: string;
  linkUrl: string;
  /** Where visitors reach this edge: an address or a host name. */
  address: string;
  version: string;
  applier: Applier;
  onRegistry(access: RegistryAccess | undefined): void;
  log: Log;
}

export function createWatch(deps: WatchDeps): Watch {
  const { log, applier } = deps;
  let send: Send<SessionRequest> | null = null;

  async function followSessions(link: () => LinkTransport, signal: AbortSignal): Promise<void> {
    const instanceId = randomUUID();
    const bootId = await readBootId();
    await runSession<SessionRequest, SessionResponse>({
      connect: (requests, sessionSignal) =>
        createClient(EdgeService, link().transport).session(requests, { signal: sessionSignal }),
      onOpen(open) {
        const { clusterEpoch, generation, digest } = applier.state();
        const { address, version } = deps;
        open(
          request({ case: "hello", value: { clusterEpoch, generation, digest, bootId, instanceId, address, version } }),
        );
      },
      onMessage({ message }, open) {
        if (message.case === "welcome") {
          send = open;
          log.info({ edgeId: message.value.edgeId }, "session open");
          deps.onRegistry(message.value.registry);
        }
        if (message.case === "table") applier.submit(message.value);
      },
      onClose() {
        send = null;
      },
      renew: (n) => request({ case: "renew", value: { n } }),
      signal,
      log,
    });
  }

  return {
    report(state) {
      send?.(appliedRequest(state));
    },
    async follow(first, outer) {
      const stop = new AbortController();
      const signal = AbortSignal.any([outer, stop.signal]);
      let link = createTransport(first, deps.linkUrl);
      const retired: LinkTransport[] = [];
      const renewing = renewLoop({
        dir: deps.identityDir,
        identity: first,
        renew: (csr, callSignal) =>
          createClient(EdgeService, link.transport).renewCertificate({ csr }, { signal: callSignal }),
        onRenewed(renewed) {
          // The session that is open stays on its connection; the next one uses the new certificate.
          retired.push(link);
          link = createTransport(renewed, deps.linkUrl);
        },
        signal,
        log,
      });
      try {
        await followSessions(() => link, signal);
      } catch (cause) {
        if (!(cause instanceof FencedError)) throw cause;
        log.error({ reason: cause.message }, "this edge was fenced: it serves what it has and follows control no more");
      } finally {
        stop.abort();
        await renewing;
        for (const each of [...retired, link]) each.close();
      }
    },
  };
}

const request = (message: MessageInitShape<typeof SessionRequestSchema>["message"] & {}): SessionRequest =>
  create(SessionRequestSchema, { message });

const appliedRequest = ({ generation, digest, error, resync }: AppliedState): SessionRequest =>
  request({ case: "applied", value: { generation, digest, error, resync } });

/** Changes with every start of the machine. */
async function readBootId(): Promise<string> {
  try {
    return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
  } catch {
    return "unknown";
  }
}
