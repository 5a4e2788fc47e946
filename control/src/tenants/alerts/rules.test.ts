import { expect, test } from "vitest";
import { changeChoices, urlProblem, wantedEvents } from "./rules.ts";

test("an owner who says nothing is told of all by webhook, and by mail of what has no mail of its own", () => {
  const wanted = wantedEvents({});
  expect(Object.values(wanted).every(({ webhook }) => webhook)).toBe(true);
  const withoutMail = Object.entries(wanted).filter(([, { mail }]) => !mail);
  expect(withoutMail.map(([event]) => event)).toEqual(["domainFailing", "quotaNear", "suspended"]);
});

test("what a change does not name stays", () => {
  const known = changeChoices({}, { siteDown: { mail: false }, jobFailed: { webhook: false } });
  const changed = changeChoices(known, { siteDown: { webhook: false } });
  expect(changed).toEqual({ siteDown: { mail: false, webhook: false }, jobFailed: { webhook: false } });
  expect(wantedEvents(changed)).toMatchObject({ jobFailed: { mail: true, webhook: false } });
});

test.each([
  { url: "https://hooks.example.test/a?b=c", problem: null },
  { url: "http://hooks.example.test", problem: null },
  { url: "hooks.example.test", problem: /^That is not an address of the web/ },
  { url: "ftp://hooks.example.test", problem: /^That is not an address of the web/ },
  { url: "https://", problem: /^That is not an address of the web/ },
  { url: "https://ada:secret@hooks.example.test", problem: /^Leave the user name/ },
  { url: "https://hooks.example.test/#here", problem: /^Leave out what is behind the #/ },
])("$url", ({ url, problem }) => {
  const said = urlProblem(url);
  if (problem === null) expect(said).toBeNull();
  else expect(said).toMatch(problem);
});
