import { additionRefusal, hostsOf, type ProvenDomain } from "@svc/control/tenants/domains/rules";
import { afterLook, type DomainState, isOutdated, type Look, windowEnd } from "@svc/control/tenants/domains/steps";
import { limits } from "@svc/proto";
import type { Model } from "./explore.ts";

/**
 * Projects that claim names, their owners and whoever writes into DNS, and workers that look there, of which one may be held up
 * between what it read and what it makes of it, or be killed: real `afterLook`, `isOutdated`, `additionRefusal` and `hostsOf`.
 * Whatever is written is written in a transaction under the name's lock. Time passes in days, and no day ends before what was
 * to be looked at on it was. Everything is told by its age, and an age by no more than is compared with.
 */
interface State {
  claims: readonly (Claim | null)[];
  /** Rows of the table of hosts. */
  hosts: readonly Row[];
  late: LateLook | null;
  /** What must not be and was seen in one step; null: nothing. */
  wrong: string | null;
}

interface Row {
  host: string;
  /** Of the claim, by its place. */
  slot: number;
  isRedirect: boolean;
}

interface Claim {
  status: DomainState["status"];
  isDisabled: boolean;
  /** What stands in DNS: this claim's value, one of an earlier claim of the same project, or none. */
  record: "own" | "old" | "none";
  /** Ages in days, below zero: still to come. */
  verifyUntil: number | null;
  failingSince: number | null;
  warnedAt: number | null;
  warnings: number;
  /** Nobody looks by themselves any more. */
  isLeft: boolean;
  hasLooked: boolean;
  /** Since somebody last read the value of this very claim, or a server that should know did not; null: never. */
  seen: number | null;
  /** Since the first of the looks that read no value, with none in between that did; null: the last one did. */
  missed: number | null;
}

interface LateLook {
  slot: number;
  proof: "found" | "absent" | "unknown";
  /** Of the record as it was. */
  isReal: boolean;
  /** Whether another project had the name then; told only where that is believed. */
  wasHeld: boolean;
  age: number;
  /** Somebody else has looked since. */
  isOvertaken: boolean;
}

export type ClaimsMutant =
  | "believes whatever was found some time"
  | "gives the name to whoever proves it last"
  | "takes a record for the project's and not the claim's"
  | "takes no answer for an absent record"
  | "takes a name at the first look without a record"
  | "decides before the lock"
  | "forgets the hosts of what is detached"
  | "forgets the hosts of what is lost"
  | "serves what is disabled"
  | "takes www from whoever has proven it";

/** Who claims what. */
interface Place {
  projectId: string;
  domain: string;
}

const apex = "shop.example";
/** Two projects that want one name. */
export const rivals: readonly Place[] = [
  { projectId: "p1", domain: apex },
  { projectId: "p2", domain: apex },
];
/** The same, and one of them wants the name's www as well. */
export const twins: readonly Place[] = [...rivals, { projectId: "p2", domain: `www.${apex}` }];

const dayMs = 86_400_000;
/** From the question to DNS to the transaction. */
const lookMs = 1_000;
const now = new Date("2030-01-10T00:00:00Z");
const dateOf = (age: number | null): Date | null => (age === null ? null : new Date(now.getTime() - age * dayMs));
const ageOf = (at: Date | null): number | null =>
  at === null ? null : Math.round((now.getTime() - at.getTime()) / dayMs);
/** Beyond it nothing differs any more. */
const ageMax = limits.domainGraceDays + 3;

const plan = { maxCustomDomains: 9, maxDatabases: 1, previewsEnabled: true, devSyncEnabled: true };

/** @param days whether time passes; then nothing is disabled, and nothing is added again with its old record in place */
export function claimsLife(mutant: ClaimsMutant | null, places: readonly Place[], days: boolean): Model<State> {
  const placeOf = (slot: number): Place => places[slot] ?? { projectId: "", domain: "" };

  /** The transaction that has changed claims writes the hosts, too. */
  function placed(state: State): State {
    const proven = state.claims.flatMap((claim, slot): (ProvenDomain & { slot: number })[] => {
      if (claim?.status !== "verified") return [];
      const isDisabled = claim.isDisabled && mutant !== "serves what is disabled";
      return [
        { id: String(slot), ...placeOf(slot), target: isDisabled ? "disabled" : "production", redirectTo: null, slot },
      ];
    });
    const wanted =
      mutant === "takes www from whoever has proven it" ? proven.flatMap((each) => hostsOf([each])) : hostsOf(proven);
    const rows = new Map(
      wanted.map(({ host, domainId, redirectTo }): [string, Row] => [
        host,
        { host, slot: Number(domainId), isRedirect: redirectTo !== null },
      ]),
    );
    return { ...state, hosts: [...rows.values()].toSorted((a, b) => (a.host < b.host ? -1 : 1)) };
  }

  const replaced = (state: State, slot: number, claim: Claim | null): State => ({
    ...state,
    claims: state.claims.with(slot, claim),
  });
  const isHeld = ({ claims }: State, slot: number): boolean =>
    claims.some(
      (claim, at) => at !== slot && claim?.status === "verified" && placeOf(at).domain === placeOf(slot).domain,
    );

  function* people(state: State): Generator<readonly [string, State]> {
    for (const [slot, claim] of state.claims.entries()) {
      const { projectId, domain } = placeOf(slot);
      if (claim === null) {
        const others = state.claims.flatMap((each, at) =>
          each === null || placeOf(at).domain !== domain
            ? []
            : [
                {
                  status: each.status,
                  isOwn: placeOf(at).projectId === projectId,
                  isOfOwner: placeOf(at).projectId === projectId,
                  isFailing: each.failingSince !== null,
                },
              ],
        );
        if (additionRefusal(plan, 0, others) !== null) continue;
        for (const record of days ? (["none"] as const) : (["none", "old"] as const))
          yield [`${projectId} adds ${domain}, with ${record} record`, replaced(state, slot, { ...added, record })];
        continue;
      }
      const detached = { ...replaced(state, slot, null), late: state.late?.slot === slot ? null : state.late };
      yield [
        `${projectId} detaches ${domain}`,
        mutant === "forgets the hosts of what is detached" ? detached : placed(detached),
      ];
      for (const record of ["own", "none"] as const)
        if (claim.record !== record)
          yield [`${projectId}: ${record} record of ${domain}`, replaced(state, slot, { ...claim, record })];
      const isDisabled = !claim.isDisabled;
      if (claim.status === "verified" && !days)
        yield [`${projectId} routes ${domain}`, placed(replaced(state, slot, { ...claim, isDisabled }))];
      if (claim.status === "failed") {
        const verifyUntil = ageOf(windowEnd(now));
        const asked: Claim = { ...claim, status: "pending", verifyUntil, isLeft: false, hasLooked: false };
        yield [`${projectId} asks for ${domain} again`, replaced(state, slot, asked)];
      }
    }
  }

  function* work(state: State): Generator<readonly [string, State]> {
    for (const [slot, claim] of state.claims.entries()) {
      if (claim === null || (claim.isLeft && claim.status === "failed")) continue;
      for (const look of looksAt(state, slot, claim)) {
        yield [`looks at ${slot}: ${look.proof}`, written(state, look)];
        // What was no answer is none later, either.
        if (state.late === null && look.proof !== "unknown")
          yield [`is held up with ${slot}: ${look.proof}`, { ...state, late: look }];
      }
    }
    if (state.late === null) return;
    const without = { ...state, late: null };
    yield ["goes on", written(without, state.late)];
    yield ["is killed", without];
  }

  function* looksAt(state: State, slot: number, { record }: Claim): Generator<LateLook> {
    const isFound = record === "own" || (record === "old" && mutant?.startsWith("takes a record for"));
    const wasHeld = mutant === "decides before the lock" && isHeld(state, slot);
    const rest = { slot, wasHeld, age: 0, isOvertaken: false };
    yield { ...rest, proof: isFound ? "found" : "absent", isReal: record === "own" };
    yield { ...rest, proof: "unknown", isReal: false };
  }

  /** Whether what a look found is dropped, now and whenever it comes. So nothing has to be searched behind it. */
  const isVain = ({ age, isOvertaken }: LateLook): boolean =>
    mutant !== "believes whatever was found some time" &&
    isOutdated(new Date(now.getTime() - age * dayMs - lookMs), isOvertaken ? now : null, now);
  const unlessVain = (look: LateLook | null): LateLook | null => (look === null || isVain(look) ? null : look);

  /** What a look makes of its claim, as the worker's transaction writes it. */
  function written(state: State, look: LateLook): State {
    const { slot } = look;
    const claim = state.claims[slot] ?? null;
    if (claim === null || isVain(look)) return state;
    const held = mutant === "decides before the lock" ? look.wasHeld : isHeld(state, slot);
    const isNoAnswer = look.proof === "unknown" && mutant !== "takes no answer for an absent record";
    const proof: Look["proof"] = isNoAnswer ? { unknown: "?" } : look.proof === "found" ? "found" : "absent";
    const mayTake = mutant === "gives the name to whoever proves it last";
    const verdict = afterLook(
      placeOf(slot).domain,
      {
        ...{ status: claim.status, reason: null, dnsStatus: "direct", verifiedAt: null, warnings: claim.warnings },
        ...{ verifyUntil: dateOf(claim.verifyUntil), failingSince: dateOf(claim.failingSince) },
        warnedAt: dateOf(claim.warnedAt),
      },
      { proof, dns: null },
      held && !mayTake,
      now,
    );
    const isTaken =
      mutant === "takes a name at the first look without a record" && claim.status === "verified" && proof === "absent";
    const status = isTaken ? "failed" : verdict.status;
    const next: Claim = {
      ...{ ...claim, status, warnings: verdict.warnings, isLeft: verdict.nextCheckAt === null || isTaken },
      ...{ verifyUntil: ageOf(verdict.verifyUntil), failingSince: ageOf(verdict.failingSince) },
      ...{ warnedAt: ageOf(verdict.warnedAt), hasLooked: true },
      seen: look.isReal ? look.age : claim.seen !== null && look.proof === "unknown" ? 0 : claim.seen,
      missed: look.isReal ? null : look.proof === "absent" ? (claim.missed ?? look.age) : claim.missed,
    };
    const isLost = claim.status === "verified" && status === "failed";
    const isProven = look.proof === "absent" && look.age === 0 && (next.missed ?? 0) >= limits.domainGraceDays;
    const after: State = {
      ...replaced(state, slot, forgetful(next)),
      late: state.late?.slot === slot ? unlessVain({ ...state.late, isOvertaken: true }) : state.late,
      wrong: isLost && !isProven ? "a name that is lost without seven days of evidence" : null,
    };
    return status === claim.status || (isLost && mutant === "forgets the hosts of what is lost")
      ? after
      : placed(after);
  }

  function* time(state: State): Generator<readonly [string, State]> {
    if (!days || state.claims.some((claim) => claim !== null && !claim.isLeft && !claim.hasLooked)) return;
    const older = (age: number | null): number | null => (age === null ? null : Math.min(age + 1, ageMax));
    const claims = state.claims.map((claim) =>
      claim === null
        ? null
        : {
            ...{ ...claim, verifyUntil: older(claim.verifyUntil), failingSince: older(claim.failingSince) },
            ...{ warnedAt: older(claim.warnedAt), seen: older(claim.seen), missed: older(claim.missed) },
            hasLooked: false,
          },
    );
    const late = state.late && unlessVain({ ...state.late, age: Math.min(state.late.age + 1, ageMax) });
    yield ["a day passes", { ...state, claims, late }];
  }

  return {
    initial: { claims: places.map(() => null), hosts: [], late: null, wrong: null },
    *next(state) {
      yield* people(state);
      yield* work(state);
      yield* time(state);
    },
    key: ({ claims, hosts, late, wrong }) =>
      [...claims, ...hosts, late].map((each) => (each === null ? "" : Object.values(each).join())).join("|") + wrong,
    problem({ claims, hosts, wrong }) {
      if (wrong !== null) return wrong;
      const holders = claims.flatMap((claim, slot) => (claim?.status === "verified" ? [placeOf(slot).domain] : []));
      if (new Set(holders).size < holders.length) return "a name that two projects have";
      for (const { host, slot, isRedirect } of hosts) {
        const claim = claims[slot] ?? null;
        if (claim === null || claim.status !== "verified") return "a host of a claim that is gone, or proves nothing";
        if (claim.isDisabled) return "a host of what is disabled";
        if (claim.seen === null) return "a host whose proof nobody has ever seen";
        if (claim.seen > limits.domainGraceDays + 1)
          return "a host whose proof nobody has seen for longer than the grace";
        if (isRedirect && holders.includes(host)) return "a host that is taken from whoever has proven it";
      }
      const isMissing = claims.some(
        (claim, slot) =>
          claim?.status === "verified" && !claim.isDisabled && !hosts.some(({ slot: at }) => at === slot),
      );
      return isMissing ? "a proven name that does not serve" : null;
    },
  };
}

const added: Claim = {
  ...{ status: "pending", isDisabled: false, record: "none", verifyUntil: ageOf(windowEnd(now)) },
  ...{ failingSince: null, warnedAt: null, warnings: 0, isLeft: false, hasLooked: false, seen: null, missed: null },
};

/** What no longer matters to one that does not serve. */
const forgetful = (claim: Claim): Claim =>
  claim.status === "verified" ? claim : { ...claim, seen: null, missed: null, isDisabled: false };
