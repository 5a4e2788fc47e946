import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createClient, type Transport } from "@connectrpc/connect";
import {
  EdgeService,
  type Salts,
  type SessionRequest,
  SessionRequestSchema,
  type SessionResponse,
} from "@svc/proto/edge";
import type { RegistryAccess } from "@svc/proto/node";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Wake } from "@svc/runtime/wake";
import { type Endpoints, runSession, type Send } from "@svc/uplink";
import type { Analytics } from "./analytics/analytics.ts";
import type { AppliedState, Applier } from "./apply.ts";
import type { Certificates } from "./certificates/certificates.ts";
import type { Challenges } from "./certificates/challenges.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Gates } from "./password/gates.ts";
import type { Standing } from "./rotation/standing.ts";
import type { Traffic } from "./traffic/traffic.ts";

/** Follows control's route table. While control is away everything goes on as it was. */
export interface Watch {
  /** Tells control what is served, if there is a session; the next one begins with it anyway. */
  report(state: AppliedState): void;
  /**
   * Keeps a session open until `signal` aborts.
   *
   * @throws FencedError when control refuses this identity for ever
   */
  follow(signal: AbortSignal): Promise<void>;
}

export interface WatchDeps {
  /** Where control is to be found. */
  endpoints: Endpoints;
  /** The connection to open the next session on. */
  transport(): Transport;
  applier: Pick<Applier, "state" | "submit">;
  gates: Pick<Gates, "learn">;
  standing: Pick<Standing, "open" | "closed" | "learn" | "heard">;
  certificates: Pick<Certificates, "learn">;
  challenges: Pick<Challenges, "learn">;
  traffic: Pick<Traffic, "open" | "acknowledged" | "closed">;
  /** Null: nobody wants any. */
  analytics?: Pick<Analytics, "open" | "learn" | "acknowledged" | "closed"> | null;
  /** Where visitors reach this edge: an address or a host name. */
  address: string;
  version: string;
  /** Changes with every start of the machine. */
  bootId: string;
  metrics?: Pick<Metrics, "connected" | "sessions" | "renewSeconds"> | undefined;
  onRegistry(access: RegistryAccess | undefined): void;
  /** Control's wish for another certificate. */
  renewal: Pick<Wake, "signal">;
  clock: Clock;
  random: Random;
  log: Log;
}

export function createWatch(deps: WatchDeps): Watch {
  const { transport, applier, gates, standing, traffic, address, version, bootId, metrics, clock, random, log } = deps;
  const analytics = deps.analytics ?? null;
  const instanceId = random.uuid();
  let send: Send<SessionRequest> | null = null;
  let renewedAtMs: number | null = null;
  const learn = async (salts: Salts): Promise<void> => {
    await analytics
      ?.learn(salts)
      .then(() => standing.heard("salts"))
      .catch((err: unknown) => log.error({ err }, "the salts of visitors could not be kept"));
  };
  /** Says what became of a message, to the session that it came by. */
  function answer(
    open: Send<SessionRequest>,
    number: bigint,
    work: () => Promise<{ error: string; tokens: string[] }>,
  ): void {
    work()
      .catch((err: unknown) => {
        log.error({ err }, "what control told of certificates could not be taken over");
        return { error: "the edge could not keep it", tokens: [] };
      })
      .then((value) => open(request({ case: "certificatesHeld", value: { number, ...value } })))
      // The session is over: the next one begins with all of it.
      .catch(() => {});
  }
  return {
    report({ generation, digest, error, behindHosts, resync }) {
      send?.(request({ case: "applied", value: { generation, digest, error, behindHosts, resync } }));
    },
    async follow(signal) {
      await runSession<SessionRequest, SessionResponse>({
        clock,
        random,
        endpoints: deps.endpoints,
        connect: (requests, sessionSignal) =>
          createClient(EdgeService, transport()).session(requests, { signal: sessionSignal }),
        onOpen(open) {
          const { clusterEpoch, generation, digest, behindHosts } = applier.state();
          const served = { clusterEpoch, generation, digest, behindHosts };
          const about = {
            ...{ bootId, instanceId, address, version, knowsGates: true },
            ...{ knowsCertificates: true, knowsAnalytics: analytics !== null, knowsDrain: true },
            knowsEntrances: true,
          };
          open(request({ case: "hello", value: { ...served, ...about } }));
        },
        onMessage({ message }, open) {
          if (message.case === "welcome") {
            // Nothing but the Hello may come before it.
            send = open;
            metrics?.connected.set(1);
            metrics?.sessions.inc();
            log.info({ edgeId: message.value.edgeId }, "session open");
            standing.open(message.value.edgeId, (value) => open(request({ case: "edgeState", value })));
            deps.onRegistry(message.value.registry);
            traffic.open((batch) => open(request({ case: "traffic", value: batch })));
            analytics?.open((value) => open(request({ case: "analytics", value })));
          }
          if (message.case === "renewAck" && renewedAtMs !== null) {
            metrics?.renewSeconds.observe((clock.steadyMs() - renewedAtMs) / 1000);
            renewedAtMs = null;
          }
          if (message.case === "gates") void gates.learn(message.value.gates);
          if (message.case === "certificates") {
            const { number, more } = message.value;
            answer(open, number, async () => {
              const error = await deps.certificates.learn(message.value);
              if (!more) standing.heard("certificates");
              return { error, tokens: [] };
            });
          }
          if (message.case === "challenges") {
            const { number, challenges } = message.value;
            answer(open, number, async () => {
              const tokens = await deps.challenges.learn(challenges);
              standing.heard("challenges");
              return { error: "", tokens };
            });
          }
          if (message.case === "drain") standing.learn(message.value);
          if (message.case === "renewNow") deps.renewal.signal();
          if (message.case === "trafficAck") traffic.acknowledged(message.value);
          if (message.case === "salts") void learn(message.value);
          if (message.case === "analyticsAck") analytics?.acknowledged(message.value);
          if (message.case === "table") applier.submit(message.value);
        },
        onClose() {
          send = null;
          renewedAtMs = null;
          metrics?.connected.set(0);
          standing.closed();
          traffic.closed();
          analytics?.closed();
        },
        renew(n) {
          renewedAtMs ??= clock.steadyMs();
          return request({ case: "renew", value: { n, wallMs: BigInt(clock.now().getTime()) } });
        },
        signal,
        log,
      });
    },
  };
}

const request = (message: NonNullable<MessageInitShape<typeof SessionRequestSchema>["message"]>): SessionRequest =>
  create(SessionRequestSchema, { message });
