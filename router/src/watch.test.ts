import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createRouterTransport, type ServiceImpl } from "@connectrpc/connect";
import {
  EdgeService,
  type RouteTable,
  type SessionRequest,
  type SessionResponseSchema,
  TrafficBatchSchema,
} from "@svc/proto/edge";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { createEndpoints, FencedError } from "@svc/uplink";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AppliedState } from "./apply.ts";
import { quiet } from "./testing/edge.ts";
import { aComplete, aPage } from "./testing/routes.ts";
import { waitFor } from "./testing/wait-for.ts";
import { createWatch, type Watch, type WatchDeps } from "./watch.ts";

type Session = ServiceImpl<typeof EdgeService>["session"];
type Answers = AsyncGenerator<MessageInitShape<typeof SessionResponseSchema>>;

const welcome = {
  case: "welcome",
  value: { edgeId: "e1", renewEveryMs: 10, leaseTtlMs: 5000, registry: { host: "registry.test:5000", insecure: true } },
} as const;
const superseded = { case: "superseded", value: {} } as const;
const goAway = { case: "goAway", value: { reconnectAfterMs: 1 } } as const;
const table = aComplete(8, [aPage("a.test", "EMPTY")]);
const served: AppliedState = {
  clusterEpoch: 2n,
  generation: 7n,
  digest: "abc",
  error: "",
  behindHosts: [],
  coming: 0,
  resync: false,
};

let stop: AbortController;
let heard: SessionRequest["message"][];
let submitted: RouteTable[];
let registries: (string | undefined)[];
let learned: string[];
/** What was taken note of, for how this edge stands. */
let stood: string[];
let saying: Parameters<WatchDeps["standing"]["open"]>[1] | undefined;
/** Numbers of batches that wait. */
let traffic: bigint[];
/** Numbers of batches of traffic, and the ends of sessions. */
let acknowledged: (bigint | "closed")[];
beforeEach(() => {
  stop = new AbortController();
  heard = [];
  submitted = [];
  registries = [];
  acknowledged = [];
  traffic = [];
  learned = [];
  stood = [];
});
afterEach(() => stop.abort());

/** A router whose sessions are answered by `session`. */
function watchOf(session: Session): Watch {
  const transport = createRouterTransport(({ service }) => {
    service(EdgeService, { session });
  });
  return createWatch({
    clock: systemClock,
    random: systemRandom,
    endpoints: createEndpoints(["https://control.test"], systemRandom),
    transport: () => transport,
    bootId: "boot1",
    applier: { state: () => served, submit: (message) => submitted.push(message) },
    standing: {
      open: (edgeId, say) => {
        stood.push(`open ${edgeId}`);
        saying = say;
      },
      closed: () => stood.push("closed"),
      learn: ({ generation, leave }) => {
        stood.push(`drain ${generation} ${leave}`);
        saying?.({ generation, unready: "it is being drained" });
      },
      heard: (thing) => stood.push(thing),
    },
    gates: { learn: async (gates) => void learned.push(...gates.map(({ revision }) => revision)) },
    certificates: { learn: async ({ upserts }) => upserts.map(({ name }) => `${name}: not kept`).join() },
    challenges: { learn: async (challenges) => challenges.map(({ token }) => token) },
    traffic: {
      open(send) {
        for (const number of traffic) send(create(TrafficBatchSchema, { series: "s1", number }));
      },
      acknowledged: ({ number }) => acknowledged.push(number),
      closed: () => acknowledged.push("closed"),
    },
    address: "127.0.0.1",
    version: "1.2.3",
    onRegistry: (access) => registries.push(access?.host),
    renewal: { signal: () => learned.push("renew") },
    log: quiet,
  });
}

const kinds = () => heard.map((message) => message.case);

test("what became of certificates and challenges is said by their numbers", async () => {
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      if (message.case !== "hello") continue;
      yield { message: welcome };
      yield { message: { case: "certificates", value: { number: 1n, upserts: [{ name: "shop.test" }] } } };
      yield { message: { case: "challenges", value: { number: 2n, challenges: [{ host: "shop.test", token: "t" }] } } };
    }
  });
  const following = watch.follow(stop.signal);
  const answers = () => heard.flatMap((message) => (message.case === "certificatesHeld" ? [message.value] : []));
  await waitFor(() => answers().length === 2);
  expect(heard[0]).toMatchObject({ case: "hello", value: { knowsCertificates: true } });
  expect(answers().toSorted((a, b) => Number(a.number - b.number))).toMatchObject([
    { number: 1n, error: "shop.test: not kept", tokens: [] },
    { number: 2n, error: "", tokens: ["t"] },
  ]);
  stop.abort();
  await following;
});

test("what control tells at first is taken note of, and how the edge stands is said", async () => {
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      if (message.case !== "hello") continue;
      yield { message: welcome };
      yield { message: { case: "drain", value: { generation: 3n, leave: true } } };
      yield { message: { case: "certificates", value: { number: 1n, first: true, more: true } } };
      yield { message: { case: "certificates", value: { number: 2n } } };
      yield { message: { case: "challenges", value: { number: 3n } } };
    }
  });
  const following = watch.follow(stop.signal);
  await waitFor(() => stood.includes("challenges") && kinds().includes("edgeState"));
  expect(stood.toSorted()).toEqual(["certificates", "challenges", "drain 3 true", "open e1"]);
  expect(heard[0]).toMatchObject({ case: "hello", value: { knowsDrain: true } });
  expect(heard[1]).toMatchObject({ case: "edgeState", value: { generation: 3n, unready: "it is being drained" } });
  stop.abort();
  await following;
  expect(stood).toContain("closed");
});

test("a session begins with what is served, and then follows the table", async () => {
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      if (message.case === "hello") {
        yield { message: welcome };
        yield { message: { case: "gates", value: { gates: [{ projectId: "p1", revision: "r1" }] } } };
        yield { message: { case: "table", value: table } };
      }
      if (message.case === "renew") yield { message: { case: "renewAck", value: { n: message.value.n } } };
    }
  });
  const following = watch.follow(stop.signal);
  await waitFor(() => submitted.length === 1 && kinds().includes("renew"));
  expect(heard[0]).toMatchObject({
    case: "hello",
    value: {
      clusterEpoch: 2n,
      generation: 7n,
      digest: "abc",
      address: "127.0.0.1",
      version: "1.2.3",
      knowsGates: true,
    },
  });
  expect(submitted[0]).toMatchObject({ generation: 8n });
  expect(registries).toEqual(["registry.test:5000"]);
  expect(learned).toEqual(["r1"]);

  watch.report({ ...served, generation: 8n, error: "b.test: it is lost" });
  await waitFor(() => kinds().includes("applied"));
  expect(heard.find(({ case: kind }) => kind === "applied")?.value).toMatchObject({
    generation: 8n,
    digest: "abc",
    error: "b.test: it is lost",
  });
  stop.abort();
  await following;
});

test("control's wish for another certificate is passed on", async () => {
  const watch = watchOf(async function* (requests) {
    yield { message: welcome };
    yield { message: { case: "renewNow", value: {} } };
    for await (const { message } of requests) heard.push(message);
  });
  const following = watch.follow(stop.signal);
  await waitFor(() => learned.includes("renew"));
  stop.abort();
  await following;
});

test("nothing is reported before the welcome, nor without a session", async () => {
  const { promise: greeted, resolve: greet } = Promise.withResolvers<void>();
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      await greeted;
      yield { message: welcome };
    }
  });
  watch.report(served);
  const following = watch.follow(stop.signal);
  await waitFor(() => kinds().includes("hello"));
  watch.report(served);
  greet();
  await waitFor(() => kinds().includes("renew"));
  expect(kinds()).not.toContain("applied");
  stop.abort();
  await following;
});

test.each(["superseded", "goAway", "the end of the stream"] as const)(
  "after %s there is another session",
  async (end) => {
    const watch = watchOf(async function* (requests): Answers {
      for await (const { message } of requests) {
        if (message.case !== "hello") continue;
        heard.push(message);
        yield { message: welcome };
        if (end === "superseded") yield { message: superseded };
        if (end === "goAway") yield { message: goAway };
        return;
      }
    });
    const following = watch.follow(stop.signal);
    await waitFor(() => heard.length >= 3);
    stop.abort();
    await following;
  },
);

test("a fenced identity is not tried again", async () => {
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      yield { message: { case: "fenced", value: { reason: "declared lost" } } };
    }
  });
  await expect(watch.follow(stop.signal)).rejects.toThrow(FencedError);
  expect(kinds()).toEqual(["hello"]);
});

test("traffic goes out once there is a session, and its acknowledgement comes back", async () => {
  traffic = [7n];
  const watch = watchOf(async function* (requests) {
    for await (const { message } of requests) {
      heard.push(message);
      if (message.case === "hello") yield { message: welcome };
      if (message.case !== "traffic") continue;
      yield { message: { case: "trafficAck", value: { series: message.value.series, number: message.value.number } } };
    }
  });
  const following = watch.follow(stop.signal);
  await waitFor(() => acknowledged.length > 0);
  expect(kinds().slice(0, 2)).toEqual(["hello", "traffic"]);
  stop.abort();
  await following;
  expect(acknowledged).toEqual([7n, "closed"]);
});
