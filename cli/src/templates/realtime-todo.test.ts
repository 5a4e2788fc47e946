import { expect, test } from "vitest";

interface Todo {
  id: string;
  title: string;
  done: boolean;
  revision: number;
  createdAt: string;
}
interface Store {
  changed(todo: Todo): boolean;
  removed(removed: { id: string; revision: number }): void;
  lost(id: string): void;
  beginList(): { end(todos: Todo[]): void; fail(): void };
  expect(id: string, fields: object | null): () => void;
  list(): (Todo & { isWaiting: boolean })[];
}

/** What a browser with the template's page knows. The page's own code has no types. */
const path = "../../templates/realtime-todo/public/store.js";
const { createStore } = (await import(path)) as { createStore(): Store };

const todo = (id: string, revision = 1, fields: Partial<Todo> = {}): Todo => ({
  ...{ id, title: id, done: false, revision, createdAt: `2030-01-01T00:00:0${id.length}.000Z` },
  ...fields,
});
/** Ids as they are shown, with `*` behind what waits. */
const shown = (store: Store) => store.list().map(({ id, isWaiting }) => `${id}${isWaiting ? "*" : ""}`);

test.each<[what: string, act: (store: Store) => void, shows: string[]]>([
  ["the newest comes first", (store) => [todo("a"), todo("bb")].map(store.changed), ["bb", "a"]],
  [
    "what was removed does not come back by a message that is late",
    (store) => {
      store.changed(todo("a", 2));
      store.removed({ id: "a", revision: 3 });
      store.changed(todo("a", 2));
    },
    [],
  ],
  [
    "a list takes away what is gone, but nothing that was told of meanwhile",
    (store) => {
      store.changed(todo("a"));
      const list = store.beginList();
      store.changed(todo("bb"));
      list.end([]);
    },
    ["bb"],
  ],
  [
    "a list that is older than a removal does not bring it back",
    (store) => {
      store.changed(todo("a"));
      const list = store.beginList();
      store.removed({ id: "a", revision: 2 });
      list.end([todo("a")]);
    },
    [],
  ],
  ["what is added shows at once, above all else", (store) => add(store), ["new*", "a"]],
  ["and not any more when it was refused", (store) => add(store)(), ["a"]],
  [
    "what is confirmed does not show twice",
    (store) => {
      const decided = add(store);
      store.changed(todo("new"));
      decided();
    },
    ["new", "a"],
  ],
  [
    "what is being removed is gone at once",
    (store) => {
      store.changed(todo("a"));
      store.expect("a", null);
    },
    [],
  ],
  [
    "a change of what somebody removed meanwhile shows nothing",
    (store) => {
      store.changed(todo("a"));
      store.expect("a", { done: true });
      store.removed({ id: "a", revision: 2 });
    },
    [],
  ],
])("%s", (_what, act, shows) => {
  const store = createStore();
  act(store);
  expect(shown(store)).toEqual(shows);
});

function add(store: Store) {
  store.changed(todo("a"));
  return store.expect("new", { title: "new", createdAt: `9${new Date(0).toISOString()}` });
}

test("the newer of two messages holds, in whatever order they come", () => {
  const store = createStore();
  expect(store.changed(todo("a", 3, { title: "new" }))).toBe(true);
  expect(store.changed(todo("a", 2, { title: "old" }))).toBe(false);
  expect(store.list()).toMatchObject([{ title: "new" }]);
});

test("what is done here stays above what others do until it is decided", () => {
  const store = createStore();
  store.changed(todo("a"));
  const decided = store.expect("a", { done: true });
  store.changed(todo("a", 2, { title: "theirs" }));
  expect(store.list()).toMatchObject([{ title: "theirs", done: true, isWaiting: true }]);
  decided();
  expect(store.list()).toMatchObject([{ title: "theirs", done: false, isWaiting: false }]);
});
