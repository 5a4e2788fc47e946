import { data } from "react-router";
import { islands } from "../islands.js";

export function loader({ params: { name } }) {
  if (!Object.hasOwn(islands, name)) throw data(null, 404);
  return { name, timetable: islands[name] };
}

export default function Island({ loaderData: { name, timetable } }) {
  return (
    <main>
      <h1>{name}</h1>
      <p>{timetable}</p>
    </main>
  );
}
