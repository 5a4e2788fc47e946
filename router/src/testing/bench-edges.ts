/**
 * Two edges, at which clients ask all the time while routes and certificates change, while no router is there, and while one of them
 * is drained and taken back. Counts what was wrong and what was cut, for the system's Caddy and for the one that SVC_CADDY_BINARY names.
 * How fast anything is does not matter. Exits with 1 where something is lost that must not be.
 *
 * Run: npm run bench -- edges
 */

import { create } from "@bufbuild/protobuf";
import { type Certificate, CertificatesSchema, DrainSchema } from "@svc/proto/edge";
import { usableCaddy } from "../caddy.ts";
import { type Asked, askOverTls, askPlainly, noneAsked, note, shakeHands } from "./bench-clients.ts";
import { type OpenStreams, openStreams } from "./bench-streams.ts";
import { usualCaddy } from "./caddy-process.ts";
import { aCertificate } from "./certificate.ts";
import { startTestEdge, type TestEdge } from "./edge.ts";
import { print, shown } from "./handshake.ts";
import { aProxy } from "./routes.ts";
import { startUpstream, type Upstream } from "./upstream.ts";
import { waitFor } from "./wait-for.ts";

/** Of routes as well as of certificates. */
const changes = Number(process.env["BENCH_CHANGES"] ?? 500);
const streamsEach = 10;
const addresses = ["127.0.0.2", "127.0.0.3"];
const plainHost = "shop.svc.localhost";
/** Hosts with certificates of control: one of its own that is replaced, and one that has it from a wildcard or of its own. */
const [ownHost, wildHost, comesAndGoes] = ["shop.example", "a.pages.example", "late.example"] as const;
const wildcard = "*.pages.example";
const upstreamsOf = (app: Upstream) => [plainHost, ownHost, wildHost, comesAndGoes].map((h) => aProxy(h, app.address));

interface Stage {
  edges: readonly TestEdge[];
  apps: readonly [Upstream, Upstream];
}

let told = 0n;
/** To every edge; on disk and in force when it returns. */
async function tell(edges: readonly TestEdge[], change: { upserts?: Certificate[]; removedNames?: string[] }) {
  told += 1n;
  const message = create(CertificatesSchema, { number: told, ...change });
  const problems = await Promise.all(edges.map((edge) => edge.edge().certificates.learn(message)));
  const problem = problems.find((each) => each !== "");
  if (problem !== undefined) throw new Error(problem);
}

/** What became of what each kind of client asked, by its name. */
type Found = Readonly<Record<string, Asked>>;

/** Clients of every kind at these edges, from now until the end is asked for. */
function startLoad(edges: readonly TestEdge[]): { end(): Promise<Found> } {
  const [plain, tls, hands] = [noneAsked(), noneAsked(), noneAsked()];
  let isOver = false;
  const again = async (ask: () => Promise<void>): Promise<void> => {
    do await ask();
    while (!isOver);
  };
  const asking = edges.flatMap(({ http, https }) => [
    again(() => askPlainly(http, plainHost, plain)),
    again(() => askOverTls(https, ownHost, tls)),
    again(() => shakeHands(https, ownHost, hands)),
  ]);
  return {
    async end() {
      isOver = true;
      await Promise.all(asking);
      return { "requests (wrk)": plain, "requests, TLS and HTTP/2 (h2load)": tls, handshakes: hands };
    },
  };
}

async function changeRoutes({ edges, apps }: Stage): Promise<void> {
  for (let n = 0; n < changes; n += 1) {
    const app = apps[n % 2 === 0 ? 1 : 0];
    const other = `other${n % 50}.svc.localhost`;
    const isThere = n % 100 >= 50;
    const change = isThere
      ? { upserts: upstreamsOf(app), removed: [other] }
      : { upserts: [...upstreamsOf(app), aProxy(other, app.address)] };
    await Promise.all(edges.map((edge) => edge.serve(change)));
  }
}

// Before anything is measured: the apps are in this process.
const own = Array.from({ length: 10 }, () => aCertificate(ownHost));
const [late, exact, wild] = [aCertificate(comesAndGoes), aCertificate(wildHost), aCertificate(wildcard)];

/**
 * Each change has to be what the next handshake shows, at every edge, or the one after it: newer Caddys let handshakes for one name
 * wait for one that is under way, which may have read the file before. Returns how many the second one showed, and not the first.
 */
async function changeCertificates({ edges }: Stage, asked: Asked): Promise<number> {
  let second = 0;
  const expectShown = async (name: string, wanted: string): Promise<void> => {
    const asks = edges.map(async ({ https }) => {
      asked.sent += 1;
      if ((await shown(https, name)) === wanted) return;
      const is = await shown(https, name);
      const wrong = is === wanted ? 0 : 1;
      note(asked, `${name} shows ${is} and not ${wanted}`, { wrong });
      second += 1 - wrong;
    });
    await Promise.all(asks);
  };
  await tell(edges, { upserts: [wild] });
  const steps = [
    async (n: number) => {
      const next = own[n % own.length] ?? wild;
      await tell(edges, { upserts: [next] });
      await expectShown(ownHost, print(next, ownHost));
    },
    async () => {
      await tell(edges, { upserts: [late] });
      await expectShown(comesAndGoes, print(late, comesAndGoes));
    },
    async () => {
      await tell(edges, { removedNames: [comesAndGoes] });
      await expectShown(comesAndGoes, "alert");
    },
    async () => {
      await tell(edges, { upserts: [exact] });
      await expectShown(wildHost, print(exact, wildHost));
    },
    async () => {
      await tell(edges, { removedNames: [wildHost] });
      await expectShown(wildHost, print(wild, wildcard));
    },
  ];
  for (let n = 0; n < changes; n += 1) await steps[n % steps.length]?.(n);
  return second;
}

/** Says to an edge what control would. */
function say(edge: TestEdge, generation: bigint, leave: boolean): void {
  edge.edge().standing.open("e1", () => {});
  edge.edge().standing.learn(create(DrainSchema, { generation, leave, inRotation: !leave }));
}

let isLost = false;
const show = (what: string, value: string): void => console.log(`  ${what.padEnd(44)} ${value}`);

/** @param mayCut whether connections end there, which is what a drain is for */
function showFound(found: Found, { mayCut = false } = {}): void {
  for (const [kind, { sent, wrong, cut, problems }] of Object.entries(found)) {
    show(kind, `${wrong} wrong, ${cut} cut, of ${sent}`);
    for (const problem of problems) show("", problem);
    isLost ||= wrong > 0 || (cut > 0 && !mayCut) || sent === 0;
  }
}

const sumOf = (streams: readonly OpenStreams[], of: "sockets" | "events"): number =>
  streams.reduce((sum, each) => sum + each.count()[of], 0);

/** How many of those that were open are not any more. */
function showCut(streams: readonly OpenStreams[], { mayCutSockets = false } = {}): void {
  const all = streams.length * streamsEach;
  const [sockets, events] = [all - sumOf(streams, "sockets"), all - sumOf(streams, "events")];
  show("WebSockets", `${sockets} cut, of ${all}`);
  show("event streams", `${events} cut, of ${all}`);
  isLost ||= events > 0 || (sockets > 0 && !mayCutSockets);
}

async function measure(caddyBinary: string): Promise<void> {
  await using blue = await startUpstream("blue");
  await using green = await startUpstream("green");
  await using stack = new AsyncDisposableStack();
  const edges: TestEdge[] = [];
  for (const address of addresses) {
    const env = { SVC_EDGE_DRAIN_SECONDS: "1" };
    edges.push(stack.use(await startTestEdge({ address, env, caddyBinary })));
  }
  const [first, ...others] = edges;
  if (first === undefined) throw new Error("there is no edge");
  console.log(`\nCaddy ${await usableCaddy(caddyBinary, first.config.inFront)}, ${edges.length} edges`);
  await Promise.all(edges.map((edge) => edge.serve({ upserts: upstreamsOf(blue) })));
  await tell(edges, { upserts: own.slice(0, 1) });
  for (const edge of edges) say(edge, 1n, false);
  const opened = await Promise.all(edges.map(({ http }) => openStreams(http, plainHost, streamsEach)));
  stack.defer(() => {
    for (const each of opened) each[Symbol.dispose]();
  });

  console.log(` ${changes} changes of routes and ${changes} of certificates, at both`);
  const next = noneAsked();
  const whileChanging = startLoad(edges);
  const stage: Stage = { edges, apps: [blue, green] };
  const [second] = await Promise.all([changeCertificates(stage, next), changeRoutes(stage)]);
  showFound({ ...(await whileChanging.end()), "certificates that are shown": next });
  show("of these by the second handshake", String(second));
  showCut(opened);

  console.log(" no router, at both");
  for (const edge of edges) await edge.stopRouter();
  showFound(await startLoad(edges).end());
  for (const edge of edges) await edge.startRouter();

  const [here, there] = [startLoad([first]), startLoad(others)];
  say(first, 2n, true);
  await waitFor(() => first.edge().rotation.phase() === "drained");
  say(first, 3n, false);
  await waitFor(() => first.edge().standing.unready() === "");
  console.log(" one of them is drained and taken back: at that one");
  showFound(await here.end(), { mayCut: true });
  showCut(opened.slice(0, 1), { mayCutSockets: true });
  console.log(" and at the other");
  showFound(await there.end());
  showCut(opened.slice(1));
}

const named = usualCaddy();
for (const binary of new Set(["caddy", named])) await measure(binary);
console.log(isLost ? "\nSomething was lost that must not be." : "\nNothing was lost that must not be.");
process.exit(isLost ? 1 : 0);
