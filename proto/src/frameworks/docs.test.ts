import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { unique } from "./build.ts";
import type { Framework } from "./form.ts";
import { frameworks } from "./table.ts";

const code = (text: string): string => `\`${text}\``;
const cell = (parts: readonly string[]): string => (parts.length === 0 ? "" : `${unique(parts).join(", ")} `);

/** A framework as docs/builds.md shows it: where a site is, what starts a server, and what it may need for that. */
function lineOf({ name, forms }: Framework): string {
  const sites = forms.flatMap(({ site }) => (site === undefined ? [] : code(site.outputs[0] ?? "")));
  const servers = forms.flatMap(({ server }) => (server === undefined ? [] : code(server.start)));
  const commands = forms.flatMap(({ cure }) => /`(?:npm|npx|bun) [^`]+`/.exec(cure ?? "")?.[0] ?? []);
  return `| ${name} | ${cell(sites)}| ${cell(servers)}| ${cell(commands)}|`;
}

test("docs/builds.md has the table of frameworks as it is", () => {
  const text = readFileSync(new URL("../../../docs/builds.md", import.meta.url), "utf8");
  expect(text).toContain(frameworks.map(lineOf).join("\n"));
});
