import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import {
  type AnalyticsAck,
  type Analytics as AnalyticsMessage,
  AnalyticsSchema,
  type Salts as SaltsMessage,
} from "@svc/proto/edge";
import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import type { Log } from "../log.ts";
import type { LogPosition } from "../traffic/access-log.ts";
import type { Visit } from "../traffic/line.ts";
import { botDevice, createAgents } from "./agents.ts";
import { openCountries } from "./countries.ts";
import { type Journal, openJournal } from "./journal.ts";
import { rowOf } from "./message.ts";
import { isPageView, pathOf, referrerHost } from "./page-view.ts";
import { openSalts } from "./salts.ts";
import type { PageView } from "./sketch.ts";
import { createSketches, type Sketches } from "./sketches.ts";
import { visitorKey } from "./visitor.ts";

/** What is visited, and how it is told apart from the site's own. */
export interface VisitedSite {
  projectId: string;
  channel: string;
  /** Whether this host is of the same project: who comes from there was here before. */
  isOwnHost(host: string): boolean;
}

/**
 * Counts what visitors look at, in rounds: `add` for each line of the access log, then `keep`, then, once the same lines
 * are counted for good elsewhere, `commit`. After a round that came to nothing: `rollBack`. Its methods are called one
 * after another, but for those about the session.
 */
export interface Analytics extends AsyncDisposable {
  /** Of the page views of this round every so many are looked at; 1: all. */
  begin(everyNth: number): void;
  add(site: VisitedSite, visit: Visit): void;
  /** What was added is on disk when it returns. It counts if the traffic of the same round does. */
  keep(position: LogPosition): Promise<void>;
  commit(position: LogPosition): Promise<void>;
  /** As it was at `position`, from where the log is read again. */
  rollBack(position: LogPosition | null): Promise<void>;
  /** Sends what control does not have, if it is time. */
  ship(): void;
  /** Destroys what visitors of days that are over were told apart with. Whether or not there are any visitors. */
  tidy(): Promise<void>;
  /** There is a session. */
  open(send: (message: AnalyticsMessage) => void): void;
  learn(salts: SaltsMessage): Promise<void>;
  acknowledged(ack: AnalyticsAck): void;
  closed(): void;
}

/** In one message, of some 5 KB each; a row of a busy site has 25. */
const rowsPerMessage = 100;
const sendAgainMs = 60_000;

/**
 * @param options.dir for what is counted and not known to be with control; readable by this program only
 * @param options.position up to where traffic is counted for good; null when nobody knows
 * @param options.everyMs how often a row is sent again while its hour goes on
 * @param options.optOut whether those who ask not to be tracked are only counted as requests
 */
export async function openAnalytics(options: {
  dir: string;
  position: LogPosition | null;
  everyMs: number;
  optOut: boolean;
  geoDatabase: string | null;
  clock: Clock;
  random: Random;
  log: Log;
}): Promise<Analytics> {
  const { dir, everyMs, optOut, clock, random, log } = options;
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const salts = await openSalts(join(dir, "salts.json"), log);
  const countryOf = await openCountries(options.geoDatabase, log);
  const describe = createAgents();
  const path = join(dir, "journal");
  let journal: Journal;
  let sketches: Sketches;
  async function load(position: LogPosition | null): Promise<void> {
    const opened = await openJournal(path, position);
    journal = opened.journal;
    sketches = createSketches(random, opened.sketches);
  }
  await load(options.position);

  let everyNth = 1;
  let seen = 0;
  /** What was added may have to be taken back. */
  let isOpenRound = false;
  let isTroubleNamed = false;
  /** Forgotten since the last round that is on disk. */
  let gone: string[] = [];
  let send: ((message: AnalyticsMessage) => void) | null = null;
  let number = 0n;
  let awaited: { number: bigint; rows: { series: string; seq: number }[]; sentAtMs: number } | null = null;
  let sendFromMs = clock.steadyMs();

  /** A line that nobody thought of must not keep the others from being counted. */
  function readView(site: VisitedSite, visit: Visit): PageView | null {
    try {
      return viewOf(site, visit);
    } catch (err) {
      if (!isTroubleNamed) log.error({ err }, "a page view cannot be counted, and perhaps others");
      isTroubleNamed = true;
      return null;
    }
  }

  function viewOf(site: VisitedSite, visit: Visit): PageView | null {
    const { said, hour } = visit;
    if (!isPageView(visit) || (optOut && said.optsOut)) return null;
    seen += 1;
    if (seen % everyNth !== 0) return null;
    const agent = describe(said.userAgent);
    const salt = salts.ofHour(hour);
    const from = referrerHost(said.referrer);
    const isVisitor = salt !== null && agent.device !== botDevice && said.address !== "";
    return {
      values: {
        paths: pathOf(said.path),
        referrers: from === null || site.isOwnHost(from) ? null : from,
        countries: countryOf(said.address),
        devices: agent.device,
        browsers: agent.browser,
        operatingSystems: agent.operatingSystem,
      },
      visitor: isVisitor ? visitorKey(salt, site.projectId, said.address, said.userAgent) : null,
      weight: everyNth,
    };
  }

  function ship(): void {
    const nowMs = clock.steadyMs();
    if (awaited !== null && nowMs - awaited.sentAtMs > sendAgainMs) awaited = null;
    if (send === null || awaited !== null || isOpenRound || nowMs < sendFromMs || !salts.isTold()) return;
    const unsent = sketches.unsent(rowsPerMessage);
    if (unsent.length < rowsPerMessage) sendFromMs = nowMs + everyMs;
    if (unsent.length === 0) return;
    number += 1n;
    awaited = { number, sentAtMs: nowMs, rows: unsent.map(({ series, seq }) => ({ series, seq })) };
    send(create(AnalyticsSchema, { number, rows: unsent.map(rowOf) }));
  }

  return {
    begin(nth) {
      everyNth = nth;
    },
    add(site, visit) {
      // Nobody has said that anything is to be counted.
      if (!salts.isTold()) return;
      const { projectId, channel } = site;
      isOpenRound = true;
      sketches.add({ projectId, channel, hour: visit.hour }, visit.status, readView(site, visit));
    },
    async keep(position) {
      await journal.append(position, sketches.takeChanged(), gone);
      gone = [];
    },
    async commit(position) {
      isOpenRound = false;
      const { done, dropped } = sketches.forget();
      if (dropped.length > 0)
        log.error({ rows: dropped.length }, "there is too much of analytics: the oldest is dropped");
      gone.push(...done, ...dropped);
      if (!journal.isLong()) return;
      await journal.rewrite(position, sketches.all());
      gone = [];
    },
    async rollBack(position) {
      await journal[Symbol.asyncDispose]();
      gone = [];
      await load(position);
      isOpenRound = false;
    },
    ship,
    tidy: () => salts.tidy(clock.now()),
    open(to) {
      send = to;
      awaited = null;
      sendFromMs = clock.steadyMs();
    },
    learn: ({ salts: told }) => salts.learn(told),
    acknowledged(ack) {
      if (awaited?.number !== ack.number) return;
      for (const { series, seq } of awaited.rows) sketches.acknowledge(series, seq);
      awaited = null;
      ship();
    },
    closed() {
      send = null;
      awaited = null;
    },
    [Symbol.asyncDispose]: () => journal[Symbol.asyncDispose](),
  };
}
