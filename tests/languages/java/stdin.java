import java.io.BufferedReader;
import java.io.InputStreamReader;

public class Main {
    public static void main(String[] args) throws Exception {
        var reader = new BufferedReader(new InputStreamReader(System.in));
        long sum = reader.lines().mapToLong(Long::parseLong).sum();
        System.out.println(sum);
    }
}
