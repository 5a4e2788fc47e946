import { readFileSync } from "node:fs";
import { join } from "node:path";
import { settings as agent } from "@svc/agent/config";
import { settings as control } from "@svc/control/settings/schema";
import { settings as dbproxy } from "@svc/dbproxy/config";
import { repositoryRoot } from "@svc/deploy/paths";
import { settings as router } from "@svc/router/config";
import { expect, test } from "vitest";

/** Settings by section of deploy/env.example: `## control` begins a section, `# NAME=` and `NAME=` name a setting. */
function documented(): Record<string, string[]> {
  const sections: Record<string, string[]> = {};
  let section: string[] = [];
  for (const line of readFileSync(join(repositoryRoot, "deploy", "env.example"), "utf8").split("\n")) {
    const [, title] = /^## (\w+)/.exec(line) ?? [];
    const [, name] = /^#? ?(SVC_[A-Z0-9_]+)=/.exec(line) ?? [];
    if (title !== undefined) {
      section = [];
      sections[title] = section;
    }
    if (name !== undefined) section.push(name);
  }
  return sections;
}

test.each([
  { program: "control", keys: Object.keys(control.shape) },
  { program: "agent", keys: Object.keys(agent.shape) },
  { program: "router", keys: Object.keys(router.shape) },
  { program: "dbproxy", keys: Object.keys(dbproxy.shape) },
])("env.example lists every setting of $program and no other", ({ program, keys }) => {
  expect((documented()[program] ?? []).toSorted()).toEqual(keys.toSorted());
});
