export default function NotFound() {
  return (
    <main>
      <h1>No bus goes there</h1>
    </main>
  );
}
