import { expect, test } from "vitest";
import * as rules from "./rules.ts";
import * as steps from "./steps.ts";
import { type Certificate, moved, type Order } from "./steps.ts";
import * as turns from "./turns.ts";

const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];
const start = new Date("2030-01-01T00:00:00Z");
const at = (hours: number) => new Date(start.getTime() + hours * hourMs);
const isWithin = (now: Date, fromHours: number, toHours: number) => now >= at(fromHours) && now < at(toHours);

/** What decides, as it is or with a fault. */
const decisions = {
  ...{ nextStep: steps.nextStep, failed: steps.failed, issued: steps.issued, advised: steps.advised },
  ...{ orderMoment: rules.orderMoment, chooseCa: rules.chooseCa, nextTurns: turns.nextTurns },
};
type Decisions = typeof decisions;

interface Name extends Certificate {
  ownerId: string;
}

const cas: [string, string] = ["https://one.test/dir", "https://two.test/dir"];
const lifeMs = 6 * dayMs;
const roomAtOnce = 32;

/**
 * A day of three edges and two CAs, minute by minute. 100 names have certificates of six days that are up to three days old.
 * From 2 to 4 an edge is silent, and then cordoned until 8; from 6 to 12 the first CA is away; at 13 it wants 40 certificates replaced
 * by 16; at 16 somebody brings 400 domains, a minute later somebody else one, and another one after half an hour; from 20 to 21 control is away. Returns what
 * must not be.
 */
function liveDay({ nextStep, failed, issued, advised, orderMoment, chooseCa, nextTurns }: Decisions): string[] {
  const wrong: string[] = [];
  let seed = 11;
  const chance = () => {
    seed = (seed * 1_664_525 + 1_013_904_223) % 4_294_967_296;
    return seed / 4_294_967_296;
  };
  const aName = (name: string, ownerId: string, now: Date): Name => ({
    ...{ name, ownerId, state: "none", held: null, order: null, since: now, renewAt: null, askAt: null },
    ...{ failures: 0, caFailures: 0, nextAt: now },
  });
  const all = Array.from({ length: 100 }, (_, index): Name => {
    const before = new Date(start.getTime() - (index / 100) * 3 * dayMs);
    const held = { notBefore: before, notAfter: new Date(before.getTime() + lifeMs), issuer: cas[0], ariId: "a.b" };
    const old = aName(`shop-${index}.test`, `user-${index % 20}`, before);
    return { ...old, ...steps.issued(held, before, chance()), askAt: at(chance() * 6) };
  });
  const orders: { name: string; ownerId: string; directory: string; at: Date; isRenewal: boolean; issuedAt?: Date }[] =
    [];

  /** Of each name while the first CA is away. */
  const tries = new Map<string, number>();

  function spent(one: Name, directory: string, now: Date): rules.SpentOrders {
    const lately = orders.filter((each) => each.directory === directory && +now - +each.at < 3 * hourMs);
    const fresh = lately.filter(({ isRenewal }) => !isRenewal);
    const of = (some: { at: Date }[]) => ({ count: some.length, oldest: some[0]?.at ?? null });
    const own = orders.filter(({ name, issuedAt, directory: ca }) => ca === directory && name === one.name && issuedAt);
    return {
      ...{ ordered: of(lately), orderedNew: of(fresh), issuedFor: of(own) },
      orderedNewOfOwner: of(fresh.filter(({ ownerId }) => ownerId === one.ownerId)),
      issuedBelow: of(own.filter(({ isRenewal }) => !isRenewal)),
    };
  }
  const isCordoned = (now: Date) => isWithin(now, 4, 8);
  const isAnswered = (now: Date) => !isWithin(now, 2, 4) || isCordoned(now);
  const own = { text: "", isCas: false, retryAfterMs: null };

  /** As far as it goes. */
  function bring(one: Name, now: Date): void {
    const save = (changes: Partial<Certificate>): void => {
      Object.assign(one, changes);
    };
    for (let count = 0; count < 10; count += 1) {
      const step = nextStep(one, { isWanted: true, isAnswered: isAnswered(now), now });
      if (step.do === "wait" || step.do === "rest") return;
      if (step.do === "order") {
        const directory = chooseCa(cas, one.caFailures);
        if (directory === cas[0] && isWithin(now, 6, 12)) {
          save(failed(one, { ...own, code: "away", isCas: true }, now, chance()));
          tries.set(one.name, (tries.get(one.name) ?? 0) + 1);
          continue;
        }
        const isRenewal = one.held?.issuer === directory;
        const until = orderMoment(spent(one, directory, now), isRenewal, now);
        if (until > now) {
          save({ nextAt: until });
          return;
        }
        orders.push({ name: one.name, ownerId: one.ownerId, directory, at: now, isRenewal });
        const { ordered } = spent(one, directory, now);
        if (ordered.count > 300) wrong.push("the CA's limit of orders is passed");
        save(moved("ordered", { directory, url: "u", orderedAt: now }, now));
      } else if (step.do === "ask") {
        const isUrgent = now >= at(13) && Number(/\d+/.exec(one.name)) < 40 && (one.held?.notBefore ?? now) < at(13);
        const usual = rules.renewalMoment(one.held as rules.Validity, 0.5);
        const window = isUrgent ? { start: at(13), end: at(15) } : { start: usual, end: usual };
        save(advised(one, { renewAt: rules.momentWithin(window, chance()), retryAfterMs: hourMs }, now));
      } else if (step.do === "give up") save(failed(one, step.why, now, chance()));
      else if (step.do === "look") {
        const { directory } = one.order as Order;
        const held = { notBefore: now, notAfter: new Date(+now + lifeMs), issuer: directory, ariId: "a.b" };
        const last = orders.findLast(({ name }) => name === one.name);
        if (last !== undefined) last.issuedAt = now;
        save(issued(held, now, chance()));
      } else if (step.do === "publish") save(moved("challenge_published", one.order as Order, now));
      else if (step.do === "start") {
        if (!isAnswered(now)) wrong.push("a CA is told to look while an edge does not answer");
        save(moved("validating", one.order as Order, now));
      }
    }
  }

  for (let now = start; now < at(24); now = new Date(+now + minuteMs)) {
    if (+now === +at(16)) for (let n = 0; n < 400; n += 1) all.push(aName(`many-${n}.test`, "many", now));
    if (+now === +at(16) + minuteMs) all.push(aName("small.test", "small", now));
    if (+now === +at(16.5)) all.push(aName("later.test", "later", now));
    for (const { name, held } of all) if (held !== null && held.notAfter <= now) wrong.push(`${name} is over`);
    if (isWithin(now, 20, 21)) continue;
    const placed = Map.groupBy(
      orders.filter((each) => !each.isRenewal && +now - +each.at < 3 * hourMs),
      ({ ownerId }) => ownerId,
    );
    const due = all.filter(({ nextAt, order }) => order === null && nextAt <= now);
    const waiting = due.map(({ name, ownerId }) => ({ registeredDomain: name, ownerId }));
    const counts = new Map([...placed].map(([ownerId, { length }]) => [ownerId, length]));
    // A round a second; a minute has room for as many as may be worked on at once.
    const next = new Set(nextTurns(waiting, counts, roomAtOnce));
    for (const one of all) if (one.order !== null || next.has(one.name)) bring(one, now);
  }

  for (const { name, held } of all) {
    if (held !== null && rules.renewalMoment(held, 0) < at(12)) wrong.push(`${name} should have been renewed by noon`);
    const isUrgent = Number(/^shop-(\d+)/.exec(name)?.[1] ?? 40) < 40;
    if (isUrgent && held !== null && held.notBefore < at(13)) wrong.push(`${name} is not replaced as its CA wanted`);
  }
  for (const [name, count] of tries) if (count > 6) wrong.push(`${name} is tried ${count} times while its CA is away`);
  if (!orders.some(({ directory, issuedAt }) => directory === cas[1] && issuedAt))
    wrong.push("the second CA is of no use");
  for (const [waiting, hours] of [
    ["small.test", 16.1],
    ["later.test", 16.7],
  ] as const) {
    const got = all.find(({ name }) => name === waiting)?.held?.notBefore;
    if (got === undefined || got > at(hours)) wrong.push(`${waiting} waits for the many of somebody else`);
  }
  const manyAt = orders.filter(({ ownerId }) => ownerId === "many");
  if (manyAt.length < 300) wrong.push("limits are not made use of");
  return wrong;
}

test("24 hours of renewals are as they should be", () => {
  expect(liveDay(decisions)).toEqual([]);
});

test.each<{ fault: string; change: Partial<Decisions>; found: RegExp }>([
  {
    fault: "the CA is told without a look at the edges",
    change: { nextStep: (one, about) => steps.nextStep(one, { ...about, isAnswered: true }) },
    found: /an edge does not answer/,
  },
  {
    fault: "limits are not heeded",
    change: { orderMoment: (_spent, _isRenewal, now) => now },
    found: /limit of orders/,
  },
  {
    fault: "failures are tried again at once",
    change: {
      failed: (one, why, now, random) => ({ ...steps.failed(one, why, now, random), nextAt: now, caFailures: 0 }),
    },
    found: /times while its CA is away/,
  },
  { fault: "the second CA is never asked", change: { chooseCa: ([first]) => first }, found: /second CA is of no use/ },
  {
    fault: "advice is not taken",
    change: {
      advised: (one, _advice, now) => steps.advised(one, null, now),
    },
    found: /as its CA wanted/,
  },
  {
    fault: "who came first is served first",
    change: { nextTurns: (some, _placed, room) => some.slice(0, room).map(({ registeredDomain }) => registeredDomain) },
    found: /small.test waits/,
  },
  {
    fault: "the limit of one user is not heeded",
    change: {
      orderMoment: (spent, isRenewal, now) =>
        rules.orderMoment({ ...spent, orderedNewOfOwner: { count: 0, oldest: null } }, isRenewal, now),
    },
    found: /later.test waits/,
  },
])("it is seen when $fault", ({ change, found }) => {
  expect(liveDay({ ...decisions, ...change }).join("\n")).toMatch(found);
});
