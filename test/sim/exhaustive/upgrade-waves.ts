import { nextUpgrades, type UpgradableServer, waveShare } from "@svc/control/tenants/databases/upgrades/steps";
import type { Model } from "./explore.ts";

/**
 * The servers of an installation that is given another image: real `nextUpgrades`. The leader begins what a round says one by one, dies
 * anywhere between, and the next one's round looks anew. Servers come up or do not, come up after all, and some are taken away
 * meanwhile by what is no fault of an image: a project that is suspended, a machine that is lost.
 *
 * Which server it is does not matter: equal ones are counted.
 */
interface State {
  /** Sorted. */
  servers: readonly Phase[];
  /** So many of a round are yet to be begun. */
  toBegin: number;
  wrong: string | null;
}

type Phase =
  | "old"
  /** Old, and its project is off the air. */
  | "old and off"
  | "upgrading"
  | "new"
  /** It has the image, and did not come up. */
  | "broken"
  /** It did not in its time, and does now. */
  | "late"
  /** What it was on its way to came to nothing when its project went off the air, or its machine was lost. */
  | "off";

export type UpgradeMutant =
  | "goes on after one that did not come up"
  | "begins with a wave"
  | "begins a wave before the one before serves"
  | "is halted by what is off the air";

/** So many that a wave is more than one. */
const serversCount = 21;
const waveMost = Math.ceil(serversCount * waveShare);

const facts: Readonly<Record<Phase, Omit<UpgradableServer, "databaseId">>> = {
  old: {
    isCurrent: false,
    isMeant: true,
    isServing: true,
    isReplaceable: true,
    isChanging: false,
    isUpgrading: false,
    upgraded: null,
  },
  "old and off": {
    ...{
      isCurrent: false,
      isMeant: false,
      isServing: false,
      isReplaceable: true,
      isChanging: false,
      isUpgrading: false,
      upgraded: null,
    },
  },
  upgrading: {
    isCurrent: true,
    isMeant: true,
    isServing: false,
    isReplaceable: true,
    isChanging: true,
    isUpgrading: true,
    upgraded: null,
  },
  new: {
    isCurrent: true,
    isMeant: true,
    isServing: true,
    isReplaceable: true,
    isChanging: false,
    isUpgrading: false,
    upgraded: "done",
  },
  broken: {
    ...{
      isCurrent: true,
      isMeant: true,
      isServing: false,
      isReplaceable: true,
      isChanging: false,
      isUpgrading: false,
      upgraded: "failed",
    },
  },
  late: {
    ...{
      isCurrent: true,
      isMeant: true,
      isServing: true,
      isReplaceable: true,
      isChanging: false,
      isUpgrading: false,
      upgraded: "failed",
    },
  },
  off: {
    ...{
      isCurrent: false,
      isMeant: false,
      isServing: false,
      isReplaceable: true,
      isChanging: false,
      isUpgrading: false,
      upgraded: "failed",
    },
  },
};

export function upgradeWaves(mutant: UpgradeMutant | null): Model<State> {
  const seen = (phase: Phase): Omit<UpgradableServer, "databaseId"> => {
    const own = facts[phase];
    if (mutant === "goes on after one that did not come up" && phase === "broken") return { ...own, upgraded: null };
    if (mutant === "begins a wave before the one before serves" && phase === "upgrading")
      return { ...own, isUpgrading: false };
    return mutant === "is halted by what is off the air" ? { ...own, isMeant: true } : own;
  };
  const roundOf = ({ servers }: State) => {
    const known = servers.map((phase, at) => ({ databaseId: String(at), ...seen(phase) }));
    const first = mutant === "begins with a wave" ? [{ databaseId: "-", ...facts.new }] : [];
    return nextUpgrades([...known, ...first]);
  };
  const count = ({ servers }: State, phase: Phase): number => servers.filter((each) => each === phase).length;

  const become = (state: State, from: Phase, to: Phase): State => {
    const servers = state.servers.toSpliced(state.servers.indexOf(from), 1, to).sort();
    return { ...state, servers };
  };

  const moves: readonly (readonly [string, Phase, Phase])[] = [
    ["one comes up", "upgrading", "new"],
    ["one does not come up", "upgrading", "broken"],
    ["one comes up after all", "broken", "late"],
    ["one goes off the air on its way", "upgrading", "off"],
    ["one goes off the air", "old", "old and off"],
    ["one comes back", "old and off", "old"],
    ["one comes back in the image", "off", "late"],
  ];
  const troubled: readonly Phase[] = ["broken", "late", "off", "old and off"];
  const troublesMax = 3;

  return {
    initial: { servers: Array.from({ length: serversCount }, () => "old"), toBegin: 0, wrong: null },
    *next(state) {
      if (state.toBegin > 0) {
        // Under the lock of its branch, if that serves still and nothing has it in hands.
        if (count(state, "old") > 0)
          yield ["one is begun", judged({ ...become(state, "old", "upgrading"), toBegin: state.toBegin - 1 })];
        yield ["the leader dies", { ...state, toBegin: 0 }];
      } else {
        const { begin } = roundOf(state);
        const wrong = count(state, "broken") > 0 ? "another one, after one that did not come up" : null;
        if (begin.length > 0) yield [`a round begins ${begin.length}`, { ...state, toBegin: begin.length, wrong }];
      }
      const troubles = state.servers.filter((phase) => troubled.includes(phase)).length;
      for (const [name, from, to] of moves)
        if (count(state, from) > 0 && (troubles < troublesMax || !troubled.includes(to)))
          yield [name, become(state, from, to)];
    },
    key: ({ servers, toBegin, wrong }) =>
      `${(Object.keys(facts) as Phase[]).map((phase) => servers.filter((each) => each === phase).length)} ${toBegin} ${wrong}`,
    problem(state) {
      if (state.wrong !== null) return state.wrong;
      const isQuiet = state.toBegin === 0 && count(state, "upgrading") === 0 && count(state, "broken") === 0;
      return isQuiet && count(state, "old") > 0 && roundOf(state).begin.length === 0
        ? "servers that stay as they are, and nothing is wrong with the image"
        : null;
    },
  };

  /** Right after another one was begun. */
  function judged(state: State): State {
    const away = count(state, "upgrading");
    const wrong =
      away > waveMost
        ? "more than a wave at once"
        : away > 1 && count(state, "new") === 0
          ? "more than one, before any has come up"
          : null;
    return { ...state, wrong: state.wrong ?? wrong };
  }
}
