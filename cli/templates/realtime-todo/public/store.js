/** Removed todos that are remembered: a message about one of them may still be on its way. */
const removedMax = 1_000;

/**
 * Todos as this browser knows them: what the server said, in whatever order that came, and above it what was done here and is not
 * confirmed yet. Nothing here waits or shows anything.
 */
export function createStore() {
  /** As the server has them, by id. */
  const known = new Map();
  /** Revisions of those that were removed, by id. */
  const removed = new Map();
  /** Done here and not confirmed: each { id, fields }, null for what removes. */
  const waiting = new Set();
  /** Of each list that is on its way: ids that were told of meanwhile, which it may not know. */
  const lists = new Set();

  const note = (id) => {
    for (const told of lists) told.add(id);
  };

  /** A todo as it is at its revision. False: something newer is known of it. */
  function accept(todo) {
    const newest = Math.max(known.get(todo.id)?.revision ?? 0, removed.get(todo.id) ?? 0);
    if (todo.revision <= newest) return false;
    known.set(todo.id, todo);
    return true;
  }

  return {
    /** Somebody changed or added it. False: that was known. */
    changed(todo) {
      note(todo.id);
      return accept(todo);
    },
    /** Somebody removed it. */
    removed({ id, revision }) {
      note(id);
      known.delete(id);
      removed.set(id, revision);
      if (removed.size > removedMax) removed.delete(removed.keys().next().value);
    },
    /** It is gone, nobody knows since when. */
    lost(id) {
      known.delete(id);
    },
    /**
     * To be called before all todos are asked for; with the answer, call what it returns. Events go on meanwhile, and what they
     * told stays.
     */
    beginList() {
      const told = new Set();
      lists.add(told);
      return {
        end(todos) {
          lists.delete(told);
          for (const todo of todos) accept(todo);
          const listed = new Set(todos.map(({ id }) => id));
          for (const id of known.keys()) if (!listed.has(id) && !told.has(id)) known.delete(id);
        },
        fail: () => lists.delete(told),
      };
    },
    /** Shows a change before it is confirmed; call what it returns when that is decided, one way or the other. */
    expect(id, fields) {
      const change = { id, fields };
      waiting.add(change);
      return () => waiting.delete(change);
    },
    /** What to show, the newest first. `isWaiting`: not confirmed. */
    list() {
      const shown = new Map([...known].map(([id, todo]) => [id, { ...todo, isWaiting: false }]));
      for (const { id, fields } of waiting) {
        if (fields === null) shown.delete(id);
        // What adds has a title; a change of a todo that somebody removed meanwhile has nothing to show.
        else if (shown.has(id) || fields.createdAt !== undefined) {
          const { createdAt, ...rest } = fields;
          const todo = shown.get(id) ?? { id, done: false, revision: 0, createdAt };
          shown.set(id, { ...todo, ...rest, isWaiting: true });
        }
      }
      return [...shown.values()].sort(
        (one, other) => compare(other.createdAt, one.createdAt) || compare(one.id, other.id),
      );
    },
  };
}

const compare = (one, other) => (one < other ? -1 : one > other ? 1 : 0);
