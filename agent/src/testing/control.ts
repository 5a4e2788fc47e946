import type { MessageInitShape } from "@bufbuild/protobuf";
import { type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import {
  type Applied,
  Assign_Kind,
  type CopySample,
  type DeliverLogRequest,
  type FetchBaseImageResponseSchema,
  type Hello,
  type IssueRegistryTokenRequest,
  NodeService,
  type PlacementRefSchema,
  type PlacementSchema,
  type PlacementStatus,
  type Renew,
  type RunAccept,
  type RunStatus,
  type Sample,
  type SessionResponseSchema,
} from "@svc/proto/node";
import type { IssuedToken } from "@svc/registry";
import type { Link } from "../link.ts";
import { linkOver } from "./link.ts";
import { waitFor } from "./wait.ts";

type Response = MessageInitShape<typeof SessionResponseSchema>;

/** The other end of the agent's session, in the same process: says what a test wants, remembers what it hears. */
export interface TestControl {
  /** For agents in the same process. */
  openLink(): Link;
  /** For a server that agents of other processes reach. */
  routes(router: ConnectRouter): void;
  hellos: Hello[];
  /** How many sessions their agents have left. */
  farewells(): number;
  statuses: Map<string, PlacementStatus>;
  applied: Applied[];
  accepts: RunAccept[];
  runs: Map<string, RunStatus>;
  logs: Map<string, string>;
  /** Forgets what a log has behind so many bytes, as if that had never arrived. */
  cutLog(streamId: string, bytes: number): void;
  deliveries: DeliverLogRequest[];
  samples: Sample[];
  /** What was told last of each copy. */
  copies: ReadonlyMap<string, CopySample>;
  /** Projects that control says are gone. */
  gone: Set<string>;
  /** Nodes that control says are fenced or removed, and how often it was asked. */
  goneNodes: Set<string>;
  goneNodesAsked: string[][];
  renewals: Renew[];
  /** What was asked for of the registry. */
  tokensAsked: IssueRegistryTokenRequest[];
  /** What control answers who asks for a base image; nothing else may be fetched. */
  baseImages: Map<string, MessageInitShape<typeof FetchBaseImageResponseSchema>["answer"] | Error>;
  baseImagesAsked: string[];
  send(message: Response): void;
  /** Sends one change on top of what was sent before, and waits until the agent has journaled it. */
  assign(change: {
    upserts?: MessageInitShape<typeof PlacementSchema>[];
    removes?: MessageInitShape<typeof PlacementRefSchema>[];
  }): Promise<void>;
  /** The status of a placement once it fits. */
  status(placementId: string, fits: (status: PlacementStatus) => boolean, timeoutMs?: number): Promise<PlacementStatus>;
  /** Ends every open session, as a restart of control would. */
  hangUp(): void;
  /** How long sessions from now on have to stand before what they name is granted. */
  contest(grantsAfterMs: number): void;
}

const blocked = {
  case: "refusal" as const,
  value: { code: "OCI_REGISTRY_BLOCKED", message: "It is not on the public internet." },
};

/** `issue` makes the tokens of a registry that asks for one; it throws ConnectError to refuse. */
export function createTestControl(options: {
  registryHost: string;
  issue?(wish: IssueRegistryTokenRequest): IssuedToken;
}): TestControl {
  const open = new Set<{ queue: Response[]; wake: () => void; over: boolean }>();
  const hellos: Hello[] = [];
  let farewells = 0;
  const statuses = new Map<string, PlacementStatus>();
  const applied: Applied[] = [];
  const accepts: RunAccept[] = [];
  const runs = new Map<string, RunStatus>();
  const logs = new Map<string, string>();
  const logBytes = new Map<string, Buffer>();
  const deliveries: DeliverLogRequest[] = [];
  const samples: Sample[] = [];
  const copies = new Map<string, CopySample>();
  const gone = new Set<string>();
  const goneNodes = new Set<string>();
  const goneNodesAsked: string[][] = [];
  const renewals: Renew[] = [];
  const tokensAsked: IssueRegistryTokenRequest[] = [];
  const baseImages: TestControl["baseImages"] = new Map();
  const baseImagesAsked: string[] = [];
  let revision = 0n;
  let grantsAfterMs = 0;

  const send = (message: Response): void => {
    for (const session of open) {
      session.queue.push(message);
      session.wake();
    }
  };
  const hear = (items: readonly PlacementStatus[]): void => {
    for (const item of items) {
      const known = statuses.get(item.placementId);
      if (known === undefined || known.statusSeq < item.statusSeq) statuses.set(item.placementId, item);
    }
  };

  const routes = (router: ConnectRouter): void => {
    router.service(NodeService, {
      async *session(requests) {
        const session = { queue: [] as Response[], wake: () => {}, over: false };
        open.add(session);
        const reading = (async () => {
          for await (const { message } of requests) {
            switch (message.case) {
              case "hello":
                hellos.push(message.value);
                session.queue.push({
                  message: {
                    case: "welcome",
                    value: {
                      nodeId: "n1",
                      clusterEpoch: 1n,
                      leaderEpoch: 1n,
                      sessionEpoch: BigInt(hellos.length),
                      renewEveryMs: 1_000,
                      leaseTtlMs: 15_000,
                      registry: { host: options.registryHost, insecure: true },
                      grantsAfterMs,
                    },
                  },
                });
                break;
              case "renew":
                renewals.push(message.value);
                session.queue.push({ message: { case: "renewAck", value: { n: message.value.n } } });
                break;
              case "inventory":
                hear(message.value.items);
                for (const run of message.value.runs) runs.set(run.attemptId, run);
                break;
              case "applied":
                applied.push(message.value);
                break;
              case "status":
                hear(message.value.items);
                session.queue.push({ message: { case: "statusAck", value: { batchSeq: message.value.batchSeq } } });
                break;
              case "runAccept":
                accepts.push(message.value);
                break;
              case "runStatus":
                runs.set(message.value.attemptId, message.value);
                break;
            }
            session.wake();
          }
        })();
        void reading.catch(() => {}).then(() => (farewells += 1));
        try {
          while (!session.over) {
            const next = session.queue.shift();
            if (next !== undefined) yield next;
            else await new Promise<void>((resolve) => (session.wake = resolve));
          }
        } finally {
          open.delete(session);
        }
      },
      appendLog({ streamId, offset, data }) {
        const stored = logBytes.get(streamId) ?? Buffer.alloc(0);
        const fresh = data.subarray(Math.max(0, stored.length - Number(offset)));
        const text = Buffer.concat([stored, fresh]);
        logBytes.set(streamId, text);
        logs.set(streamId, text.toString("utf8"));
        return { length: BigInt(text.length) };
      },
      deliverLog(request) {
        deliveries.push(request);
        return {};
      },
      listGoneNodes({ nodeIds }) {
        goneNodesAsked.push(nodeIds);
        return { gone: nodeIds.filter((id) => goneNodes.has(id)) };
      },
      issueRegistryToken(wish) {
        tokensAsked.push(wish);
        return options.issue?.(wish) ?? { token: "none", expiresInSeconds: 900 };
      },
      listGoneProjects: ({ projectIds }) => ({ gone: projectIds.filter((id) => gone.has(id)) }),
      fetchBaseImage({ reference }) {
        baseImagesAsked.push(reference);
        const answer = baseImages.get(reference) ?? blocked;
        if (answer instanceof Error) throw answer;
        return { answer };
      },
      reportDatabases(request) {
        for (const copy of request.copies) copies.set(copy.copyId, copy);
        return {};
      },
      reportSamples(request) {
        samples.push(...request.samples);
        return {};
      },
    });
  };

  return {
    cutLog(streamId, bytes) {
      const kept = Buffer.from((logBytes.get(streamId) ?? Buffer.alloc(0)).subarray(0, bytes));
      logBytes.set(streamId, kept);
      logs.set(streamId, kept.toString("utf8"));
    },
    hellos,
    farewells: () => farewells,
    statuses,
    applied,
    accepts,
    runs,
    logs,
    deliveries,
    samples,
    copies,
    gone,
    goneNodes,
    goneNodesAsked,
    renewals,
    tokensAsked,
    baseImages,
    baseImagesAsked,
    send,
    routes,
    openLink() {
      return linkOver(createRouterTransport(routes));
    },
    async assign({ upserts = [], removes = [] }) {
      const appliesTo = String(revision);
      revision += 1n;
      const resultsIn = String(revision);
      const kind = revision === 1n ? Assign_Kind.COMPLETE : Assign_Kind.DELTA;
      const value = { kind, clusterEpoch: 1n, leaderEpoch: 1n, appliesTo, resultsIn, upserts, removes };
      await waitFor("a session", () => open.size > 0);
      send({ message: { case: "assign", value } });
      await waitFor(`assignment ${resultsIn}`, () => applied.some((answer) => answer.resultsIn === resultsIn));
    },
    status: (placementId, fits, timeoutMs) =>
      waitFor(
        `status of ${placementId} (last: ${JSON.stringify(statuses.get(placementId)?.failure ?? statuses.get(placementId)?.observed)})`,
        () => {
          const status = statuses.get(placementId);
          return status !== undefined && fits(status) ? status : null;
        },
        timeoutMs,
      ),
    hangUp() {
      for (const session of open) {
        session.over = true;
        session.wake();
      }
    },
    contest(ms) {
      grantsAfterMs = ms;
    },
  };
}
