import { expect, test } from "vitest";
import { databaseSamples } from "./samples.ts";

const [one, two] = ["018f3a6e-4f00-7000-8000-000000000001", "018f3a6e-4f00-7000-8000-000000000002"] as const;
const at = "2030-01-01T00:00:00.000Z";
const stateOf = (...connections: { databaseId: string; epoch: string; open: number; failedLogins: number }[]) => ({
  generation: "7",
  pid: 1,
  connections,
});
const serving = { databaseId: one, epoch: 3n, volumeBytes: 1_000 };

test.each([
  {
    when: "the proxy counts it",
    instances: [serving],
    state: stateOf({ databaseId: one, epoch: "3", open: 4, failedLogins: 2 }),
    told: [{ databaseId: one, epoch: 3n, volumeBytes: 1_000n, connections: 4, failedLogins: 2n }],
  },
  {
    when: "the proxy does not tell",
    instances: [serving],
    state: null,
    told: [{ databaseId: one, epoch: 3n, volumeBytes: 1_000n, connections: undefined, failedLogins: undefined }],
  },
  {
    when: "the proxy still counts the epoch before",
    instances: [serving],
    state: stateOf({ databaseId: one, epoch: "2", open: 4, failedLogins: 0 }),
    told: [{ databaseId: one, epoch: 3n, volumeBytes: 1_000n, connections: undefined, failedLogins: undefined }],
  },
  {
    when: "its volume could not be measured",
    instances: [{ ...serving, volumeBytes: null }],
    state: stateOf({ databaseId: one, epoch: "3", open: 0, failedLogins: 0 }),
    told: [{ databaseId: one, epoch: 3n, volumeBytes: undefined, connections: 0, failedLogins: 0n }],
  },
  {
    when: "logins from here fail at another node's",
    instances: [],
    state: stateOf({ databaseId: two, epoch: "5", open: 0, failedLogins: 9 }),
    told: [{ databaseId: two, epoch: 5n, volumeBytes: undefined, connections: undefined, failedLogins: 9n }],
  },
  {
    when: "nobody has anything to say of another node's",
    instances: [],
    state: stateOf({ databaseId: two, epoch: "5", open: 0, failedLogins: 0 }),
    told: [],
  },
])("a database is told of when $when", ({ instances, state, told }) => {
  const samples = databaseSamples(instances, state, at);
  expect(samples.every((sample) => sample.at === at)).toBe(true);
  expect(
    samples.map(({ databaseId, epoch, volumeBytes, connections, failedLogins }) => ({
      ...{ databaseId, epoch, volumeBytes, connections, failedLogins },
    })),
  ).toEqual(told);
});
