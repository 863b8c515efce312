public class Main {
    public static void main(String[] args) {
        System.out.println("to stdout");
        System.err.println("to stderr");
    }
}
