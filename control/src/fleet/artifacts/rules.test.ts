import { describe, expect, test } from "vitest";
import {
  type ArtifactBounds,
  type ArtifactFacts,
  judgeArtifacts,
  type Referrer,
  type StoredArtifact,
} from "./rules.ts";

const minuteMs = 60_000;
const now = new Date("2030-01-01T12:00:00Z");
const ago = (minutes: number) => new Date(now.getTime() - minutes * minuteMs);
const bounds: ArtifactBounds = { graceMs: 60 * minuteMs, pushMs: 60 * minuteMs, rollbackTargets: 2 };

const app = "svc/p/app";
const source = "svc/p/source";
const backups = "svc/p/backup";

/** An image that was pushed long ago. */
const image = (digest: string | null, more: Partial<StoredArtifact> = {}): StoredArtifact => ({
  id: `id-${digest}`,
  repository: app,
  digest,
  createdAt: ago(600),
  endedAt: ago(600),
  building: null,
  ...more,
});

let made = 0;
/** A deployment that runs the image of that digest, newer than those made before. */
function deployment(status: Referrer["status"], digest: string, more: Partial<Referrer> = {}): Referrer {
  made += 1;
  return {
    id: `d${made}`,
    status,
    channel: "production",
    number: made,
    contents: [{ repository: app, digest }],
    canBeRestored: true,
    served: false,
    hasOpenTask: false,
    ...more,
  };
}

const judge = (facts: Partial<ArtifactFacts>) => {
  const decision = judgeArtifacts(
    { now, projectGone: false, deployments: [], artifacts: [], files: [], ...facts },
    bounds,
  );
  return { removes: decision.remove.map(({ digest }) => digest), looksUp: decision.lookUp.map(({ id }) => id) };
};

describe("what refers to an image keeps it", () => {
  test.each<{ when: string; deployments: Referrer[]; removes: string[] }>([
    { when: "nothing does", deployments: [], removes: ["a"] },
    { when: "a deployment waits", deployments: [deployment("queued", "a")], removes: [] },
    { when: "a deployment is built", deployments: [deployment("building", "a")], removes: [] },
    { when: "a deployment starts", deployments: [deployment("deploying", "a")], removes: [] },
    { when: "a deployment serves", deployments: [deployment("running", "a")], removes: [] },
    { when: "a deployment is stopped", deployments: [deployment("stopped", "a")], removes: [] },
    { when: "a deployment failed", deployments: [deployment("failed", "a")], removes: ["a"] },
    { when: "a deployment was canceled", deployments: [deployment("canceled", "a")], removes: ["a"] },
    {
      when: "a channel still points at a failed one",
      deployments: [deployment("failed", "a", { served: true })],
      removes: [],
    },
    {
      when: "a node still works for a canceled one",
      deployments: [deployment("canceled", "a", { hasOpenTask: true })],
      removes: [],
    },
    { when: "it can be rolled back to", deployments: [deployment("superseded", "a")], removes: [] },
    {
      when: "it is of a superseded preview",
      deployments: [deployment("superseded", "a", { channel: "preview" })],
      removes: ["a"],
    },
    {
      when: "two newer ones can be rolled back to",
      deployments: [deployment("superseded", "a"), deployment("superseded", "b"), deployment("superseded", "c")],
      removes: ["a"],
    },
    {
      when: "the newer ones are of another channel",
      deployments: [
        deployment("superseded", "a"),
        deployment("superseded", "b", { channel: "dev" }),
        deployment("superseded", "c", { channel: "dev" }),
      ],
      removes: [],
    },
    {
      when: "the newer ones have lost their artifact",
      deployments: [
        deployment("superseded", "a"),
        deployment("superseded", "b", { contents: [], canBeRestored: false }),
        deployment("superseded", "c", { contents: [], canBeRestored: false }),
      ],
      removes: [],
    },
    {
      when: "a rollback to it was just accepted",
      deployments: [
        deployment("superseded", "a"),
        deployment("superseded", "b"),
        deployment("superseded", "c"),
        deployment("queued", "a"),
      ],
      removes: [],
    },
  ])("$when", ({ deployments, removes }) => {
    expect(judge({ artifacts: [image("a")], deployments }).removes).toEqual(removes);
  });

  test("a deployment keeps its source together with its image", () => {
    const contents = [
      { repository: source, digest: "s" },
      { repository: app, digest: "a" },
    ];
    const artifacts = [image("s", { repository: source }), image("a"), image("old", { repository: source })];
    expect(judge({ artifacts, deployments: [deployment("running", "a", { contents })] }).removes).toEqual(["old"]);
  });

  test("the file of a backup stays while there is the backup, and goes with the project", () => {
    const artifacts = [image("a", { repository: backups }), image("b", { repository: backups })];
    const facts = { artifacts, files: [{ repository: backups, digest: "a" }] };
    expect(judge(facts).removes).toEqual(["b"]);
    expect(judge({ ...facts, projectGone: true }).removes).toEqual(["a", "b"]);
  });

  test("equal digests of two repositories are two artifacts", () => {
    const artifacts = [image("a", { repository: source }), image("a")];
    const decision = judgeArtifacts(
      { now, projectGone: false, artifacts, files: [], deployments: [deployment("running", "a")] },
      bounds,
    );
    expect(decision.remove).toEqual([{ repository: source, digest: "a" }]);
  });
});

describe("time", () => {
  test.each<{ when: string; artifacts: StoredArtifact[]; removes: string[]; looksUp: string[] }>([
    {
      when: "what was pushed lately may be waiting for its deployment",
      artifacts: [image("a", { endedAt: ago(59) })],
      removes: [],
      looksUp: [],
    },
    {
      when: "what was pushed again lately counts as new, once",
      artifacts: [image("a"), image("a", { id: "again", endedAt: ago(1) })],
      removes: [],
      looksUp: [],
    },
    {
      when: "content that was pushed twice goes once",
      artifacts: [image("a"), image("a", { id: "again" })],
      removes: ["a"],
      looksUp: [],
    },
    {
      when: "while something is pushed to a repository, nothing of it goes",
      artifacts: [image("a"), image(null, { id: "new", createdAt: ago(5), endedAt: null })],
      removes: [],
      looksUp: [],
    },
    {
      when: "another repository does not wait",
      artifacts: [image("a"), image(null, { repository: source, createdAt: ago(5), endedAt: null })],
      removes: ["a"],
      looksUp: [],
    },
    {
      when: "an upload that never ended is looked up after a while",
      artifacts: [image("a"), image(null, { id: "lost", createdAt: ago(61), endedAt: null })],
      removes: ["a"],
      looksUp: ["lost"],
    },
    {
      when: "an upload that failed is looked up at once",
      artifacts: [image(null, { id: "failed", createdAt: ago(2), endedAt: ago(1) })],
      removes: [],
      looksUp: ["failed"],
    },
    {
      when: "a build pushes as long as it runs, however long",
      artifacts: [image("a"), image(null, { createdAt: ago(600), endedAt: null, building: true })],
      removes: [],
      looksUp: [],
    },
    {
      when: "what a build pushed before it was given up is looked up",
      artifacts: [image(null, { id: "build", createdAt: ago(1), endedAt: null, building: false })],
      removes: [],
      looksUp: ["build"],
    },
  ])("$when", ({ artifacts, removes, looksUp }) => {
    expect(judge({ artifacts })).toEqual({ removes, looksUp });
  });
});

test("nothing of a deleted project is kept, new or old, and pushes that are under way are waited for", () => {
  const artifacts = [
    image("a", { endedAt: now }),
    image("b"),
    image(null, { id: "upload", createdAt: ago(1), endedAt: null }),
    image(null, { id: "build", endedAt: null, building: true }),
  ];
  const decision = judge({ projectGone: true, artifacts, deployments: [deployment("running", "a", { served: true })] });
  expect(decision).toEqual({ removes: ["a", "b"], looksUp: [] });
});
