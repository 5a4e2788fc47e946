import { expect, test } from "vitest";
import { judgeOffsite, type OffsiteHealth } from "./offsite.ts";

const health: OffsiteHealth = {
  ...{ place: "https://s3.test/svc/", problem: null, whole: 3, waiting: 0, waitingSeconds: 0 },
  ...{ waitingProblem: null, behind: 0, behindProblem: null, elsewhere: 0 },
};
const told = (changes: Partial<OffsiteHealth>) =>
  judgeOffsite({ ...health, ...changes }).map(({ status, text }) => `${status}: ${text}`);
const well = "ok: 3 backups are off-site, at https://s3.test/svc/.";

test.each<[changes: Partial<OffsiteHealth>, says: string[]]>([
  [{}, [well]],
  [{ waiting: 1, waitingSeconds: 3_000 }, [well]],
  [
    { waiting: 2, waitingSeconds: 7_300, waitingProblem: "it answers 503 SlowDown" },
    ["warn: 2 backups are not off-site yet, the oldest after 2 hours: it answers 503 SlowDown.", well],
  ],
  [{ problem: "no" }, ["fail: The bucket at https://s3.test/svc/ is of no use: no.", well]],
  [
    { behind: 2, behindProblem: "its node did not list files of the copy: no answer" },
    [
      "warn: The copies of 2 databases off-site lag an hour behind: its node did not list files of the copy: no answer.",
      well,
    ],
  ],
  [{ place: null, whole: 0 }, []],
  [
    { place: null, whole: 0, elsewhere: 1 },
    ["warn: 1 thing is in a bucket that SVC_S3_… no longer names: backups, or copies of databases."],
  ],
])("%j", (changes, says) => {
  expect(told(changes)).toEqual(says);
});
