import { availableParallelism } from "node:os";
import { verify } from "@node-rs/bcrypt";
import { limits } from "@svc/proto/limits";

export type Verdict = "right" | "wrong" | "busy";

/** For whom a password is compared. */
export interface Asker {
  /** Whose password it is. */
  site: string;
  /** Of the visitor, with all who are in that one's network. */
  network: string;
}

/** Compares passwords with hashes. One costs some 80 ms of a processor, so few run at once and not many wait. */
export interface PasswordChecker {
  /** Those who attack one site, or all from one network, take no place from others. */
  check(asker: Asker, password: string, hash: string): Promise<Verdict>;
}

const waitingMax = 32;
/** Of one site, and of one network at all sites; with those that run. */
const eachMax = 4;

interface Waiting {
  asker: Asker;
  /** `false`: somebody else has the place. */
  go(mayRun: boolean): void;
}

export function createPasswordChecker(atOnce = Math.max(1, Math.floor(availableParallelism() / 4))): PasswordChecker {
  let running = 0;
  const queue: Waiting[] = [];
  const sites = new Map<string, number>();
  const networks = new Map<string, number>();

  /** How much its site or its network has, whichever has more. */
  const shareOf = ({ site, network }: Asker): number => Math.max(sites.get(site) ?? 0, networks.get(network) ?? 0);

  function count({ site, network }: Asker, by: 1 | -1): void {
    add(sites, site, by);
    add(networks, network, by);
  }

  /** Takes the place of the newest of those whose share is the largest, if that is larger than the asker's would be. */
  function makeRoom(asker: Asker): boolean {
    if (queue.length < waitingMax) return true;
    const shares = queue.map((each) => shareOf(each.asker));
    const largest = Math.max(...shares);
    if (shareOf(asker) + 1 >= largest) return false;
    const [out] = queue.splice(shares.lastIndexOf(largest), 1);
    out?.go(false);
    return true;
  }

  /** Whether it may run. */
  async function waitForTurn(asker: Asker): Promise<boolean> {
    if (running >= atOnce) return new Promise((resolve) => queue.push({ asker, go: resolve }));
    running += 1;
    return true;
  }

  function endTurn(): void {
    // The place goes straight to the next in line, so the count stays.
    const next = queue.shift();
    if (next) next.go(true);
    else running -= 1;
  }

  return {
    async check(asker, password, hash) {
      // bcrypt would not look at the rest: two passwords that differ only there are not the same.
      if (password === "" || Buffer.byteLength(password) > limits.sitePasswordBytesMax) return "wrong";
      if (shareOf(asker) >= eachMax || !makeRoom(asker)) return "busy";
      count(asker, 1);
      try {
        if (!(await waitForTurn(asker))) return "busy";
        try {
          return (await verify(password, hash)) ? "right" : "wrong";
        } finally {
          endTurn();
        }
      } finally {
        count(asker, -1);
      }
    },
  };
}

function add(counts: Map<string, number>, key: string, by: number): void {
  const sum = (counts.get(key) ?? 0) + by;
  if (sum > 0) counts.set(key, sum);
  else counts.delete(key);
}
