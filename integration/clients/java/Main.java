/** Scenarios of Java's client. */
public final class Main {
    public static void main(String[] names) throws Exception {
        Connections.register();
        Messages.register();
        Features.register();
        Frame.main(names);
    }
}
